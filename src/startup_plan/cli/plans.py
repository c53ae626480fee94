# SPDX-License-Identifier: Apache-2.0
"""`startup-plan plans` and `startup-plan explain`: what lies in a cache root, in plain words."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table

from startup_plan.reference import bounds, plan, store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME: Final = re.compile(r"startup_plan_([0-9a-f]{16})\.json")
_DEFAULT_ROOT: Final = "~/.cache/vllm"


@click.command()
@click.argument("root", required=False)
def plans(root: str | None) -> None:
    """List the plans of a cache root (default: VLLM_CACHE_ROOT, or vLLM's own default)."""
    folder = store.folder_of(
        os.path.expanduser(root or os.environ.get("VLLM_CACHE_ROOT") or _DEFAULT_ROOT)
    )
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise click.UsageError(
            f"{folder} cannot be listed ({error.strerror}); "
            "give the cache root, the folder that holds startup_plan/"
        ) from None
    table = Table("key", "KV cache", "baseline", "device", "vLLM", "rank", "state")
    known = 0
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        known += 1
        try:
            found = _read(os.path.join(folder, name))
        except click.ClickException as error:
            table.add_row(match[1], "", "", "", "", "", error.message.partition(": ")[2])
            continue
        factors = found.factors
        table.add_row(
            found.fingerprint,
            f"{found.kv_cache_memory_bytes / 2**30:.2f} GiB",
            f"{found.free_memory_baseline / 2**30:.2f} GiB",
            str(factors.get("device_name", "?")),
            str(factors.get("vllm", "?")),
            f"{factors.get('rank', '?')} of {factors.get('world_size', '?')}",
            "whole",
        )
    console = Console()
    if known:
        console.print(table)
    others = len(names) - known
    console.print(f"{known} plans and {others} other files in {folder}", highlight=False)


@click.command()
@click.argument("files", nargs=-1, required=True)
def explain(files: tuple[str, ...]) -> None:
    """Say what each plan holds, whether it would be applied now, and how two plans differ."""
    found = [(path, _read(path)) for path in files]
    for path, record in found:
        click.echo(f"{path}")
        click.echo(f"  key            {record.fingerprint}")
        click.echo(f"  KV cache       {bounds.size(record.kv_cache_memory_bytes)}")
        click.echo(f"  free at least  {bounds.size(record.free_memory_baseline)}")
        weights = record.weights_bytes
        click.echo(f"  weights        {'unknown' if weights is None else bounds.size(weights)}")
        for name, value in _flat(record.factors):
            click.echo(f"  {name} = {value}")
        click.echo(f"  now: {_verdict(record)}")
    for (one, first), (two, second) in itertools.pairwise(found):
        click.echo(f"between {one} and {two}")
        lines = list(_differences(first.factors, second.factors))
        if first.fingerprint == second.fingerprint:
            click.echo("  the key is the same")
        elif not lines:
            click.echo("  the keys differ by more than the factors that were recorded")
        for line in lines:
            click.echo(f"  {line}")


def _read(path: str) -> plan.Plan:
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None:
        raise click.UsageError(
            f"{path}: a plan is called startup_plan_ and its key in 16 hexadecimal digits, .json"
        )
    try:
        data = store.load(path)
        if data is None:
            raise click.UsageError(f"{path}: there is no such file")
        return plan.decode(data, match[1])
    except plan.NoPlanError as error:
        raise click.UsageError(f"{path}: no plan of this package, {error}") from None


def _verdict(record: plan.Plan) -> str:
    if importlib.util.find_spec("torch") is None:
        return "whole; cannot compare with a device, torch is not installed here"
    import torch  # noqa: PLC0415  # only this question needs a device

    if not torch.cuda.is_available():
        return "whole; cannot compare with a device, torch finds none here"
    verdicts = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        if properties.name != record.factors.get("device_name"):
            verdicts.append(f"device {index} is another, {properties.name}")
            continue
        free, total = torch.cuda.mem_get_info(index)
        share: Any = record.factors.get("gpu_memory_utilization", 1.0)
        reason = bounds.refusal(record, bounds.Memory(free, total, float(share), None))
        verdicts.append(f"device {index}: " + (f"refused, {reason}" if reason else "would apply"))
    return "; ".join(verdicts)


def _flat(factors: Mapping[str, object], head: str = "") -> Iterator[tuple[str, object]]:
    for name, value in factors.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{head}{name}.")
        else:
            yield f"{head}{name}", value


def _differences(one: Mapping[str, object], two: Mapping[str, object]) -> Iterator[str]:
    first, second = dict(_flat(one)), dict(_flat(two))
    for name in sorted(first.keys() | second.keys()):
        before, after = first.get(name, "(default)"), second.get(name, "(default)")
        if before != after or type(before) is not type(after):
            yield f"{name}: {before} -> {after}"
