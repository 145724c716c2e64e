"""``piop export``: write the whole prediction of a run to a file that needs no piop."""

from __future__ import annotations

from pathlib import Path

import click

from piop.cli.completion import RUN
from piop.cli.console import PATH, common_options, example, force_option, print_json
from piop.cli.progress import progress
from piop.job_phases import JobPhase


@click.command(epilog=example("piop export runs/mine --format onnx --output mine.onnx"))
@click.argument("run", type=RUN)
@click.option(
    "--format",
    "format_name",
    metavar="[onnx|pt2]",
    help="onnx (sensors are fixed) or pt2 (sensors are free); by default as --output ends.",
)
@click.option("--output", type=PATH, help="The file; by default NAME.onnx or NAME.pt2.")
@click.option(
    "--sensors",
    type=PATH,
    help="File as of piop predict --input, whose sensors an ONNX file has; by default the spec's.",
)
@force_option
@common_options
def export(
    run: Path,
    format_name: str | None,
    output: Path | None,
    sensors: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the prediction of RUN to a file that is evaluated without piop.

    The file takes sensor values and points, and gives the unknowns there: interpolation of the
    inputs, network, hard constraints and units. It is compared with RUN on sizes that were not used
    to make it, and written only where they agree. docs/export.md has the lines that load it.
    """
    with progress() as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import Run

        loaded = Run.load(run, "cpu")
        given = None
        if sensors is not None:
            from piop.datasets import read_sensors

            given = read_sensors(sensors, loaded.problem)
        found = loaded.export(output, format_name, given, force)
    agreement = found.agreement
    if as_json:
        print_json(
            {
                "output": str(found.path),
                "format": found.format,
                "inputs": [vars(argument) for argument in found.inputs],
                "outputs": [vars(argument) for argument in found.outputs],
                "difference": agreement.difference,
                "tolerance": agreement.tolerance,
            }
        )
        return
    print(f"Wrote {found.path}")
    for title, arguments in (("takes", found.inputs), ("gives", found.outputs)):
        for argument in arguments:
            shape = ", ".join(map(str, argument.shape))
            print(f"  {title}  {argument.name} [{shape}]  {argument.meaning}")
    print(
        f"It differs from the run by {agreement.difference:.1e} of the largest value; "
        f"{agreement.tolerance:g} is allowed"
    )
