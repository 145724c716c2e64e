"""``piop evaluate``: evaluate a run again, on other or more held-out inputs."""

from __future__ import annotations

from pathlib import Path

import click

from piop.cli.console import common_options
from piop.cli.results import show_discretisation, show_results


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--samples", type=click.IntRange(min=1), default=64, show_default=True, help="Held-out inputs."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Of the inputs; by default the run's."
)
@click.option(
    "--sensors",
    metavar="25%,50%,40",
    help="Evaluate with these parts, or counts, of the sensors of each input function.",
)
@click.option(
    "--grid",
    "grids",
    metavar="64,128,64x32",
    help="Evaluate on grids of so many points per axis of space.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Evaluate on the first samples of this file instead.",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="By default the run's own.")
@common_options
def evaluate(
    run: Path,
    samples: int,
    seed: int | None,
    sensors: str | None,
    grids: str | None,
    data: Path | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Evaluate RUN on held-out inputs.

    Prints the errors, rewrites evaluation.json and the figures. With --data the inputs are those of
    a file that was not trained on, such as one of other shapes. With --sensors or --grid it prints
    the errors for each number of sensors on each grid instead, and writes discretisation.json and
    a figure: fewer sensors are a random part of those there are, and the reference is solved on
    each grid; data are evaluated on grids within their own.
    """
    from piop.run import Run

    loaded = Run.load(run, device)
    if sensors is not None or grids is not None:
        found = loaded.discretisation(sensors, grids, samples, seed, data=data)
        show_discretisation(loaded, found, as_json)
        return
    loaded.evaluate(samples, seed, data=data)
    show_results(loaded, as_json, data=data)
