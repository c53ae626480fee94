# SPDX-License-Identifier: Apache-2.0
"""Names that a subject asked for and that the simulation gives no meaning to."""

from __future__ import annotations

from typing import Final

unknown_names: list[str] = []
"""What subjects asked for and could not be given, as sentences, since somebody emptied this."""

NO_ALARM: Final = (
    "it sets an alarm, which a rank that boots beside others never hears in the simulated world "
    "(judge groups where vLLM is installed)"
)
"""Noted although nothing is missing yet: only a rank that waits would miss it."""


class UnknownNameError(AttributeError):
    """A subject asked for a name of vLLM or torch that the simulation gives no meaning to."""


def refuse(module: str, name: str) -> UnknownNameError:
    """The error for `name` of `module`, which is noted unless Python itself asks such names."""
    sentence = (
        f"it asks {module} for {name!r}, to which the simulated vLLM gives no meaning "
        "(add it to the providers in harness/stubs/vllm_module.py or torch_module.py)"
    )
    if name.startswith("__") and name.endswith("__"):
        return UnknownNameError(sentence)
    return note(sentence)


def note(sentence: str) -> UnknownNameError:
    """The error for what `sentence` says was asked for in vain, which is noted."""
    unknown_names.append(sentence)
    return UnknownNameError(sentence)
