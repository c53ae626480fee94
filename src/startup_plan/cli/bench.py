# SPDX-License-Identifier: Apache-2.0
"""The commands `startup-plan bench … -- COMMAND …` and `startup-plan bench diagnose DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import click

from startup_plan.bench.errors import RefusalError
from startup_plan.bench.orders.phases import PHASES, choose_phases

_COMMAND: Final = f"{__name__}.command"

_EPILOG: Final = """
Exit status: 0 every check passed; 1 a check failed; 2 refused, with the reason; 130 after Ctrl-C
and 143 after SIGTERM, with the results so far.
"""


@final
class _BenchGroup(click.Group):
    """Options, then `--`, then the server's command; or the name of a sub-command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows `--` away from the options."""
        if "--" in args:
            index = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[index + 1 :])
            args = args[:index]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command, or explain what stands there instead."""
        if self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"{args[0]}: write -- before the server's command", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_BenchGroup,
    invoke_without_command=True,
    epilog=_EPILOG,
    options_metavar="[OPTIONS] -- COMMAND …",
    subcommand_metavar="| diagnose DIR",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--output-dir", type=Path, metavar="DIR", help="A new folder for everything kept.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Where the server listens on 127.0.0.1."
)
@click.option(
    "--request",
    "requests",
    type=Path,
    metavar="FILE",
    multiple=True,
    help="A JSON body for the chat or completions endpoint; may be given again.",
)
@click.option(
    "--phases",
    metavar="NAME,…",
    help=f"Some of: {', '.join(phase.name for phase in PHASES)}; all but first-reload by default.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=1, help="Rounds of all phases.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=900.0,
    metavar="S",
    help="Seconds until healthy, and for each answer; 900 by default.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="S",
    help="Seconds to end after TERM, before KILL; 30 by default.",
)
@click.option("--health", default="/health", metavar="PATH", help="Path that says it is healthy.")
@click.option("--env", "settings", metavar="K=V", multiple=True, help="A variable for the server.")
@click.pass_context
def bench(
    ctx: click.Context,
    output_dir: Path | None,
    port: int | None,
    requests: tuple[Path, ...],
    phases: str | None,
    repeats: int,
    timeout: float,
    grace: float,
    health: str,
    settings: tuple[str, ...],
) -> int:
    """Measure a server's start-up, from its launch to its first answer.

    Each phase launches COMMAND anew, waits until it is healthy, sends every request and ends it.
    `diagnose` reads what a benchmark kept and says why something was not reused.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    command: tuple[str, ...] = ctx.meta.get(_COMMAND, ())
    if not command:
        raise click.UsageError(
            "write the server's command after --, as in: -- vllm serve MODEL --host 127.0.0.1", ctx
        )
    if output_dir is None or port is None:
        missing = "--output-dir DIR" if output_dir is None else "--port PORT"
        raise click.UsageError(f"{missing} is missing", ctx)
    try:
        # Imported when it is used: the command line must answer at once.
        from startup_plan.bench.orders.benchmark import Benchmark  # noqa: PLC0415
        from startup_plan.bench.orders.environment import parse_settings  # noqa: PLC0415
        from startup_plan.bench.orders.requests import load_requests  # noqa: PLC0415

        benchmark = Benchmark(
            command=command,
            output=output_dir,
            port=port,
            requests=load_requests(requests),
            phases=choose_phases(phases),
            repeats=repeats,
            timeout=timeout,
            grace=grace,
            health=health,
            extra=parse_settings(settings),
        )
        benchmark.check()
        from startup_plan.bench.display import measure  # noqa: PLC0415

        return measure(benchmark)
    except RefusalError as error:
        raise click.UsageError(str(error)) from error


@bench.command()
@click.argument("folder", metavar="DIR", type=Path)
def diagnose(folder: Path) -> int:
    """Say why something was not reused, from what a benchmark kept in DIR.

    Exit status: 0 nothing was missed; 1 something was; 2 DIR is no benchmark.
    """
    from startup_plan.bench.diagnosis.find import diagnose as find  # noqa: PLC0415

    try:
        diagnosis = find(folder)
    except RefusalError as error:
        raise click.UsageError(str(error)) from error
    for line in diagnosis.lines():
        click.echo(line)
    return 0 if diagnosis.is_clean else 1
