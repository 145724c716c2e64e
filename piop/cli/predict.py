"""``piop predict``: predictions at any queries for inputs at any sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from piop.cli.console import common_options, print_json
from piop.errors import UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--input", "source", type=click.Path(path_type=Path), help="Sensors: NetCDF, npz or CSV."
)
@click.option("--at", help='Queries as ranges: "t=0:1:11, x=0:1:64"; by default the save grid.')
@click.option("--queries", type=click.Path(path_type=Path), help="Queries as a file.")
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, help="The NetCDF to write."
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="By default the run's own.")
@common_options
def predict(
    run: Path,
    source: Path | None,
    at: str | None,
    queries: Path | None,
    output: Path,
    device: str | None,
    as_json: bool,
) -> None:
    """Predict the solutions of the inputs in a file.

    Variables and CSV columns are named as in the spec; a column "sample" numbers the inputs.
    """
    if at is not None and queries is not None:
        raise UsageError("give --at or --queries, not both")
    from piop.run import Run
    from piop.run.user_inputs import read_at

    loaded = Run.load(run, device)
    if source is None and loaded.problem.visible_inputs:
        names = ", ".join(i.name for i in loaded.problem.visible_inputs)
        raise UsageError(f"--input is missing: {run} needs sensors of {names}")
    from piop.datasets import read_queries, read_sensors, write_prediction

    observed = {} if source is None else read_sensors(source, loaded.problem)
    where = queries if queries is not None else at
    given = None if where is None else read_queries(where, loaded.problem)
    requested = read_at(loaded.problem, given, loaded.model.operator.end_only)
    found = loaded.predict(observed, requested)
    values = {str(name): variable.values for name, variable in found.data_vars.items()}
    write_prediction(output, loaded.problem, requested, values, run=str(run), input=str(source))
    summary: dict[str, Any] = {
        "output": str(output),
        "samples": found.sizes["sample"],
        "shape": list(requested.shape),
        "unknowns": list(loaded.problem.channels),
    }
    if as_json:
        print_json(summary)
    else:
        shape = " x ".join(map(str, requested.shape))
        print(f"Wrote {output}: {summary['samples']} samples of {shape} points")
