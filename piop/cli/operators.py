"""``piop predict`` and ``piop evaluate``: use a trained operator, and judge it again."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from piop.cli.completion import RUN
from piop.cli.console import (
    COUNT,
    PATH,
    SEED,
    common_options,
    device_option,
    example,
    force_option,
    print_json,
)
from piop.cli.error_tables import show_calibration, show_discretisation, show_results
from piop.cli.prediction_text import SOURCES, bounds_text, sources_text, typicality_text
from piop.cli.progress import progress
from piop.errors import NotSupportedError, UsageError
from piop.job_phases import JobPhase
from piop.json_values import json_value


@click.command(
    epilog=example(
        "piop evaluate runs/burgers --samples 256",
        "piop evaluate runs/burgers --sensors 25%,50%,100% --grid 64,128,256",
    )
)
@click.argument("run", type=RUN)
@click.option(
    "--samples",
    type=COUNT,
    help="Held-out inputs; by default up to 64, in a quarter of the time of training.",
)
@click.option("--seed", type=SEED, help="Of the inputs; by default the run's.")
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
@click.option("--data", type=PATH, help="Evaluate on the first samples of this file instead.")
@click.option(
    "--calibrate",
    type=COUNT,
    metavar="N",
    help="Learn error bounds from so many further inputs, and leave the errors as they are.",
)
@device_option
@common_options
def evaluate(
    run: Path,
    samples: int | None,
    seed: int | None,
    sensors: str | None,
    grids: str | None,
    data: Path | None,
    calibrate: int | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Evaluate RUN on held-out inputs.

    Prints the errors, rewrites evaluation.json and the figures. With --data the inputs are those of
    a file that was not trained on, such as one of other shapes. With --sensors or --grid it prints
    the errors for each number of sensors on each grid instead, and writes discretisation.json and
    a figure: fewer sensors are a random part of those there are, and the reference is solved on
    each grid; data are evaluated on grids within their own. With --calibrate it writes
    calibration.json, from which piop predict bounds the error of every answer.
    """
    if calibrate is not None and any(v is not None for v in (samples, sensors, grids, data)):
        raise UsageError("--calibrate: leave --samples, --sensors, --grid and --data out")
    with progress() as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import Run
        from piop.run.run import HELD_OUT_INPUTS

        loaded = Run.load(run, device)
        if calibrate is not None:
            show.enter(JobPhase.CALIBRATING)
            solved = partial(show.advance, what="references")
            learned = loaded.calibrate(calibrate, seed, progress=solved).summary_or_reason()
            show.finish()
            show_calibration(loaded, learned, as_json)
            return
        show.enter(JobPhase.EVALUATING)
        study = sensors is not None or grids is not None
        if study:
            count = HELD_OUT_INPUTS if samples is None else samples
            found = loaded.discretisation(sensors, grids, count, seed, data=data)
        else:
            solved = partial(show.advance, what="references")
            found = loaded.evaluate(samples, seed, data=data, progress=solved)
    if study:
        show_discretisation(loaded, found, as_json)
    else:
        show_results(loaded, show, as_json, data=data, evaluation=found)


@click.command(
    epilog=example(
        'piop predict runs/burgers --input sensors.csv --at "t=0:1:11, x=0:6.28:64" --output u.nc'
    )
)
@click.argument("run", type=RUN)
@click.option("--input", "source", type=PATH, help="Sensors: NetCDF, npz or CSV.")
@click.option("--at", help='Queries as ranges: "t=0:1:11, x=0:1:64"; by default the save grid.')
@click.option("--queries", type=PATH, help="Queries as a file.")
@click.option(
    "--confidence",
    type=float,
    default=0.9,
    show_default=True,
    help="Probability that the error of an input of the distribution is within its bound.",
)
@click.option(
    "--tolerance",
    type=float,
    help="Solve by the reference solver where the bound of the relative L2 error exceeds this.",
)
@click.option(
    "--refine",
    is_flag=True,
    help="Correct predictions by one step of Newton's method (evolutions on one axis of space, "
    "steady problems on boxes).",
)
@click.option("--output", type=PATH, required=True, help="F.nc or F.zarr.")
@force_option
@device_option
@common_options
def predict(
    run: Path,
    source: Path | None,
    at: str | None,
    queries: Path | None,
    confidence: float,
    tolerance: float | None,
    refine: bool,
    output: Path,
    force: bool,
    device: str | None,
    as_json: bool,
) -> None:
    """Predict the solutions of the inputs in a file.

    Variables and CSV columns are named as in the spec; a column "sample" numbers the inputs. Inputs
    that cannot be of the distribution of the spec, on which RUN was trained, are named. Where RUN
    is calibrated, every answer has a bound of its error; with --tolerance, answers whose bound
    exceeds it are those of the reference solver. With --refine, predictions are corrected first.
    """
    if at is not None and queries is not None:
        raise UsageError("give --at or --queries, not both")
    from piop.run import Run
    from piop.run.user_inputs import read_at, read_inputs

    loaded = Run.load(run, device)
    if source is None and loaded.problem.visible_inputs:
        names = ", ".join(i.name for i in loaded.problem.visible_inputs)
        raise UsageError(f"--input is missing: {run} needs sensors of {names}")
    from piop.datasets import DatasetWriter, read_queries, read_sensors, write_prediction

    DatasetWriter.require(output, force)  # before the work
    observed = {} if source is None else read_sensors(source, loaded.problem)
    where = queries if queries is not None else at
    given = None if where is None else read_queries(where, loaded.problem)
    requested = read_at(loaded.problem, given, loaded.model.operator.end_only)
    found = loaded.predict(observed, requested, confidence, tolerance, refine)
    channels = loaded.problem.channels
    arrays = {str(name): variable for name, variable in found.data_vars.items()}
    values = {name: arrays.pop(name).values for name in channels}
    made_from = {"run": str(run), "input": None if source is None else str(source)}
    if refine:
        made_from["refined"] = found.attrs["refined"]
    if tolerance is not None:
        made_from |= {name: str(found.attrs[name]) for name in SOURCES}
    write_prediction(
        output, loaded.problem, requested, values, per_sample=arrays, force=force, **made_from
    )
    summary: dict[str, Any] = {
        "output": str(output),
        "samples": found.sizes["sample"],
        "shape": list(requested.shape),
        "unknowns": list(channels),
        **({} if tolerance is None else {name: found.attrs[name] for name in SOURCES}),
        **{name: json_value(array.values) for name, array in arrays.items()},
    }
    if as_json:
        print_json(summary)
    else:
        shape = " x ".join(map(str, requested.shape))
        print(f"Wrote {output}: {summary['samples']} samples of {shape} points")
        with suppress(NotSupportedError):
            print(typicality_text(loaded.typicality(read_inputs(loaded.problem, observed))))
        print(bounds_text(arrays, confidence))
        if tolerance is not None:
            print(sources_text(found.attrs, confidence))
