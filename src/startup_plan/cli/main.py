# SPDX-License-Identifier: Apache-2.0
"""The command `startup-plan`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Final, final

import click

_COMMANDS: Final = {
    "gate": ("startup_plan.cli.gate", "Judge a startup plan, requirement by requirement."),
    "zoo": ("startup_plan.cli.zoo", "List the seeded faults, or prove that each is caught."),
    "plans": ("startup_plan.cli.plans", "List the plans of a cache root."),
    "fuzz": ("startup_plan.cli.fuzz", "Fuzz a subject's look-up, guided by coverage."),
    "census": ("startup_plan.cli.census", "Walk vLLM's settings: which are in the key?"),
    "explain": ("startup_plan.cli.plans", "Say what a plan holds and which factors differ."),
    "bench": ("startup_plan.cli.bench", "Measure a server's start-up, phase by phase."),
}
"""Name of a command: the module that defines it under that name, and what it does."""

INTERNAL: Final = 4
INTERRUPTED: Final = 130


@final
class _LazyGroup(click.Group):
    """Commands that are imported when one of them is used, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="startup-plan", prog_name="startup-plan")
def commands() -> None:
    """Say whether a vLLM startup plan can hand out memory that is not there.

    Nor may it hang a group of ranks, or stop an engine from booting. `startup-plan gate` is
    where to start.
    """


def main() -> None:
    """Run the command line and leave with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Counterexamples hold any character, whatever the terminal can show.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and give its exit status."""
    try:
        status = commands.main(arguments, prog_name="startup-plan", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever was reading has gone; what is still buffered must not be complained about.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception:
        traceback.print_exc()
        click.echo("startup-plan: this is a defect of startup-plan; please report it", err=True)
        return INTERNAL
    return status if isinstance(status, int) else 0
