# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, made on the spot, for configurations and engines that are real.

Nothing is downloaded: transformers writes the configuration, tokenizers the tokenizer, and the
weights come from a fixed seed. The same call gives the same folder, byte for byte.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SEED: Final = 20_260
"""Seed of the weights."""

LONGEST: Final = 512
"""Positions that a model knows."""

_SPECIALS: Final = ("<s>", "</s>", "<pad>", "<image>", "<user>", "<assistant>", "<system>", "<end>")
_BYTES: Final = 256
VOCABULARY: Final = _BYTES + len(_SPECIALS)
"""One token for each byte, then the special ones; a model can say nothing that is no token."""

_CHAT: Final = (
    "<s>{% for message in messages %}<{{ message['role'] }}>"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}<image>{% endif %}"
    "{% endfor %}{% endif %}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

# Far larger than what a model is trained from, so that the most likely token is beyond doubt and
# greedy decoding does not hang on the last bit of a sum.
_SPREAD: Final = 0.5


def kinds() -> tuple[str, ...]:
    """Every kind of model that can be made."""
    return tuple(_CONFIGURATIONS)


def make(kind: str, folder: Path, *, weights: bool = False) -> Path:
    """Make a tiny model in `folder`, which is created.

    Args:
        kind: `llama`; `mixture-of-experts` (Mixtral); `multimodal` (PaliGemma: images and text);
            `draft`, a smaller Llama with the vocabulary of `llama`, to speculate for it.
        folder: where it goes; files of the same names are replaced.
        weights: whether to write weights too, under 1 MB, for an engine that answers. A
            configuration needs none. For `multimodal` the configuration builds without
            torchvision, while vLLM's engine asks for it.

    Returns:
        `folder`, the name by which vLLM and transformers know the model.

    Raises:
        ValueError: there is no such kind.
        ImportError: transformers or tokenizers is not installed (with `weights`, torch as well).
    """
    if kind not in _CONFIGURATIONS:
        raise ValueError(f"no tiny model {kind!r}: the kinds are {', '.join(_CONFIGURATIONS)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config, model_class = _CONFIGURATIONS[kind]()
    config.architectures = [model_class.__name__]
    config.save_pretrained(folder)
    _write_tokenizer(folder)
    if kind == "multimodal":
        _write_processor(folder, config)
    if weights:
        _write_weights(folder, config, model_class)
    return folder


def _text(**others: Any) -> dict[str, Any]:
    """What the language models have in common."""
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,  # vLLM has no attention kernel for less on CPU
        "vocab_size": VOCABULARY,
        "max_position_embeddings": LONGEST,
        "initializer_range": _SPREAD,
        "bos_token_id": _id("<s>"),
        "eos_token_id": _id("</s>"),
        "pad_token_id": _id("<pad>"),
        "dtype": "float32",
        **others,
    }


def _llama() -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415  # takes seconds

    return LlamaConfig(**_text()), LlamaForCausalLM


def _draft() -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415  # as above

    return LlamaConfig(**_text(num_hidden_layers=1)), LlamaForCausalLM


def _mixture_of_experts() -> tuple[Any, Any]:
    from transformers import MixtralConfig, MixtralForCausalLM  # noqa: PLC0415  # as above

    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
    return MixtralConfig(**_text(**experts)), MixtralForCausalLM


def _multimodal() -> tuple[Any, Any]:
    from transformers import (  # noqa: PLC0415  # as above
        GemmaConfig,
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        SiglipVisionConfig,
    )

    # One of the few that vLLM can inspect where torchvision is absent, as beside a CPU torch.
    vision = SiglipVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
        dtype="float32",
    )
    config = PaliGemmaConfig(
        vision_config=vision,
        text_config=GemmaConfig(**_text(), hidden_activation="gelu_pytorch_tanh"),
        image_token_index=_id("<image>"),
        projection_dim=64,
        hidden_size=64,
        vocab_size=VOCABULARY,
        bos_token_id=_id("<s>"),
        eos_token_id=_id("</s>"),
        pad_token_id=_id("<pad>"),
        dtype="float32",
    )
    return config, PaliGemmaForConditionalGeneration


def _id(special: str) -> int:
    return _BYTES + _SPECIALS.index(special)


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415

    # GPT-2's printable stand-ins for bytes, in an order of our own that never changes.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {sign: number for number, sign in enumerate([*alphabet, *_SPECIALS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in _SPECIALS])
    tokenizer.save(os.fspath(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": LONGEST,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT,
        },
    )


def _write_processor(folder: Path, config: Any) -> None:
    """What turns an image into tokens for `config`."""
    vision = config.vision_config
    image = {
        "image_processor_type": "SiglipImageProcessor",
        "size": {"height": vision.image_size, "width": vision.image_size},
        "image_seq_length": (vision.image_size // vision.patch_size) ** 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    processor = {"processor_class": "PaliGemmaProcessor"}
    _write_json(folder / "preprocessor_config.json", {**image, **processor})
    _write_json(folder / "processor_config.json", processor)


def _write_weights(folder: Path, config: Any, model_class: Any) -> None:
    import torch  # noqa: PLC0415  # takes seconds

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = model_class(config)
    model.save_pretrained(folder)


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


_CONFIGURATIONS: Final[Mapping[str, Callable[[], tuple[Any, Any]]]] = {
    "llama": _llama,
    "mixture-of-experts": _mixture_of_experts,
    "multimodal": _multimodal,
    "draft": _draft,
}
