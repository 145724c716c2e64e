"""The command line, its table of commands; everything it does is in the Python API as well."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from piop import __version__
from piop.cli import (
    backbones,
    completion,
    data,
    explore,
    export,
    operators,
    report,
    settings,
    solve,
    specs,
)
from piop.cli.console import example
from piop.cli.failures import run_command
from piop.errors import did_you_mean

__all__ = ["cli", "main"]


class Commands(click.Group):
    """A group that keeps the order of its table and proposes the nearest name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the commands in the order in which they are used."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which there are."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            hint = did_you_mean(args[0], self.commands) or f"One of {', '.join(self.commands)}."
            raise click.UsageError(f"no command '{args[0]}'. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("piop solve burgers --time 5m"),
)
@click.version_option(__version__, message="piop %(version)s")
def cli() -> None:
    """Write a PDE once; train an operator on it; know how far to trust it.

    \b
    piop new mine           start a spec
    piop check mine.yaml    see what piop makes of it
    piop solve burgers      train, compare with a reference, write a run folder
    """  # noqa: D301 - click keeps the lines after a backspace character as they are


for _command in (
    *(specs.new, specs.check, solve.solve, solve.resume, operators.evaluate, operators.predict),
    *(report.report, report.plot, explore.explore, export.export),
    *(data.data, backbones.backbones, settings.settings, completion.completion),
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave: 0 done, 1 failed while running, 2 wrong usage or a bad spec."""
    if instruction := os.environ.get(completion.VARIABLE):
        sys.exit(completion.answer(cli, instruction))
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run_command(cli, given))
