"""``piop evaluate``: judge a run again, on other or more held-out inputs."""

from __future__ import annotations

from pathlib import Path

import click

from piop.cli.console import common
from piop.cli.results import show_results


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--samples", type=click.IntRange(min=1), default=64, show_default=True, help="Held-out inputs."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Of the inputs; by default the run's."
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="By default the run's own.")
@common
def evaluate(run: Path, samples: int, seed: int | None, device: str | None, as_json: bool) -> None:
    """Judge RUN on held-out inputs.

    Prints the errors, rewrites evaluation.json and the figures.
    """
    from piop.run import Run

    loaded = Run.load(run, device)
    loaded.evaluate(samples, seed)
    show_results(loaded, as_json)
