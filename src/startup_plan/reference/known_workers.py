# SPDX-License-Identifier: Apache-2.0
"""Whether a vLLM worker uses its startup plan in the way that this package stands in for.

The source is read, not imported: importing the worker would import the model runner, and with it
half of vLLM, into processes that never run a model.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

APPLY: Final = "maybe_apply_startup_plan"
SAVE: Final = "maybe_save_startup_plan"
_MEASURES: Final = "determine_available_memory"
_RESULT: Final = "kv_cache_memory_bytes"


def objection(source: str, plan_module: str) -> str:
    """Say why the worker in `source` is not one that is known, or "" if it is.

    A known worker takes both functions from `plan_module` by name, asks for a plan exactly once,
    when it is about to measure its memory and before it reads whether a size was given, and hands
    over one measurement elsewhere (`vllm/v1/worker/gpu_worker.py`, 0.32 and 0.33).

    Args:
        source: the text of vLLM's `gpu_worker.py`.
        plan_module: the dotted name of vLLM's startup-plan module.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"its source cannot be read ({error})"
    missing = {APPLY, SAVE} - _imported(tree, plan_module)
    if missing:
        return f"it does not take {_and(missing)} from {plan_module}"
    worker = next(
        (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Worker"), None
    )
    if worker is None:
        return "it has no class Worker"
    methods = {n.name: n for n in worker.body if isinstance(n, ast.FunctionDef)}
    if _MEASURES not in methods:
        return f"its class Worker has no method {_MEASURES}"
    applies = [(name, call) for name, node in methods.items() for call in _calls(node, APPLY)]
    saves = [(name, call) for name, node in methods.items() for call in _calls(node, SAVE)]
    everywhere = len(list(_calls(tree, APPLY))), len(list(_calls(tree, SAVE)))
    if (len(applies), len(saves)) != (1, 1) or everywhere != (1, 1):
        return (
            f"it calls {APPLY} {everywhere[0]} times and {SAVE} {everywhere[1]} times, "
            "and its class Worker should call each once"
        )
    (asking, apply), (saving, save) = applies[0], saves[0]
    if _arguments(apply) != ("self",):
        return f"it does not call {APPLY} with itself alone"
    if _arguments(save)[:1] != ("self",) or len(_arguments(save)) != 2:
        return f"it does not call {SAVE} with itself and a number of bytes"
    if asking != _MEASURES or saving == _MEASURES:
        return f"it calls {APPLY} in {asking} and {SAVE} in {saving}"
    if not _asks_first(methods[_MEASURES], apply):
        return f"it reads {_RESULT} before it calls {APPLY}"
    return ""


def _imported(tree: ast.Module, module: str) -> set[str]:
    """The names that a module takes from `module` at its top level, and calls by that name."""
    return {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == module
        for alias in node.names
        if alias.asname in (None, alias.name)
    }


def _calls(tree: ast.AST, function: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == function
        ):
            yield node


def _arguments(call: ast.Call) -> tuple[str, ...]:
    """How each argument is written; a keyword or a star makes it a call that nobody knows."""
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return ()
    return tuple(ast.unparse(argument) for argument in call.args)


def _asks_first(method: ast.FunctionDef, apply: ast.Call) -> bool:
    """Whether the call is a statement of the method itself, above every use of its result."""
    for statement in method.body:
        if isinstance(statement, ast.Expr) and statement.value is apply:
            return True
        uses = (n for n in ast.walk(statement) if isinstance(n, ast.Attribute))
        if any(use.attr == _RESULT for use in uses):
            return False
    return False


def _and(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
