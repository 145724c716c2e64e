"""``piop report`` and ``piop plot``: look at a run."""

from __future__ import annotations

from pathlib import Path

import click

from piop.cli.completion import FIGURE, RUN
from piop.cli.console import PATH, SEED, debug_option, example, force_option
from piop.cli.progress import progress
from piop.job_phases import JobPhase


@click.command(epilog=example("piop report runs/mine --output mine.html"))
@click.argument("run", type=RUN)
@click.option("--output", type=PATH, help="By default report.html in RUN, which is replaced.")
@click.option("--data", type=PATH, help="Show the solutions of this file, if evaluated on it.")
@force_option
@debug_option
def report(run: Path, output: Path | None, data: Path | None, force: bool) -> None:
    """Write the report of RUN as one HTML file.

    It says whether the operator is right, shows solutions beside references, errors, bounds,
    training, the problem and every setting, and loads nothing from elsewhere.
    """
    with progress() as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import Run

        loaded = Run.load(run)
        show.enter(JobPhase.DRAWING, "report")
        written = loaded.report(output, data, force)
    print(f"Wrote {written}")


@click.command(epilog=example("piop plot runs/mine --figure error_over_time --output error.pdf"))
@click.argument("run", type=RUN)
@click.option("--figure", type=FIGURE, required=True, help="One of those above.")
@click.option("--output", type=PATH, required=True, help="F.pdf, F.png or F.svg.")
@click.option("--unknown", help="The unknown of fields; by default the first.")
@click.option("--seed", type=SEED, help="Of the held-out inputs; by default the run's.")
@force_option
@debug_option
def plot(
    run: Path, figure: str, output: Path, unknown: str | None, seed: int | None, force: bool
) -> None:
    """Draw one figure of RUN into a file, with text as text.

    Figures: fields (reference, prediction and error of the best, a median and the worst input),
    residual, error_over_time, error_over_space, error_over_inputs, error_over_distance,
    bound_over_error, losses, inferred, discretisation.
    """
    with progress() as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import Run

        loaded = Run.load(run)
        show.enter(JobPhase.DRAWING, figure)
        loaded.plot(figure, output, unknown, seed, force)
    print(f"Wrote {output}")
