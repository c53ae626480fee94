# SPDX-License-Identifier: Apache-2.0
"""Tiny models: real configurations build on each, and the same call makes the same folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.real_vllm import tiny_models

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

_TEXT: Final = "Grüße, plan!\n 1"
_MOST_BYTES: Final = 2 << 20


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may ask the network for a model."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", tiny_models.kinds())
def test_same_call_makes_the_same_model(tmp_path: Path, kind: str) -> None:
    """A model is small, has weights if they were asked for, and is the same byte for byte."""
    once = _contents(tiny_models.make(kind, tmp_path / "once", weights=True))
    again = _contents(tiny_models.make(kind, tmp_path / "again", weights=True))
    bare = _contents(tiny_models.make(kind, tmp_path / "bare"))

    assert once == again
    assert (sum(map(len, once.values())) < _MOST_BYTES, set(once) - set(bare)) == (
        True,
        {"model.safetensors", "generation_config.json"},
    )


@pytest.mark.usefixtures("_offline")
def test_tokenizer_has_a_token_for_each_byte(tmp_path: Path) -> None:
    """Any text comes back from its tokens, there are as many as bytes, and a chat has a form."""
    from transformers import AutoTokenizer  # noqa: PLC0415  # only where vLLM is installed

    tokenizer = AutoTokenizer.from_pretrained(tiny_models.make("llama", tmp_path))
    tokens = tokenizer(_TEXT)["input_ids"]
    chat = [{"role": "user", "content": "hi"}]
    form = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)

    assert (tokenizer.decode(tokens), len(tokens)) == (_TEXT, len(_TEXT.encode()))
    assert (len(tokenizer), form) == (tiny_models.VOCABULARY, "<s><user>hi<end><assistant>")


@pytest.mark.usefixtures("_offline")
@pytest.mark.parametrize("kind", tiny_models.kinds())
def test_real_configuration_builds(tmp_path: Path, kind: str) -> None:
    """VLLM builds its configuration on each kind, with the optional part that the kind is for."""
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # only where vLLM is installed

    made = {name: tiny_models.make(name, tmp_path / name) for name in {kind, "llama"}}
    options: dict[str, Any] = {"model": os.fspath(made[kind]), "max_model_len": 256}
    if kind == "draft":
        draft = {"model": options["model"], "num_speculative_tokens": 2}
        options |= {"model": os.fspath(made["llama"]), "speculative_config": draft}
    config = EngineArgs(**options, dtype="float32").create_engine_config()
    parts = {
        "multimodal": config.model_config.multimodal_config is not None,
        "draft": config.speculative_config is not None,
        "mixture-of-experts": config.model_config.is_moe,
    }

    assert parts == {name: name == kind for name in parts}
    assert len(config.compute_hash()) == 10
