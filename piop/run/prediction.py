"""Predictions of an operator at many queries in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from piop.datasets import Queries
from piop.datasets.lazy_arrays import (
    BOUND_OVER_TIME,
    ERROR_BOUND,
    ESTIMATE,
    IN_DISTRIBUTION,
    P_VALUE,
    PREDICTION_VARIABLES,
    SENSOR_ERROR,
    SOURCE,
)
from piop.denormals import flush_denormals
from piop.errors import DataError, UsageError
from piop.fields import chunks
from piop.models.core.base import Inputs
from piop.models.core.interpolation import interpolate_grid
from piop.problem import Problem
from piop.run.error_bounds.fallback import AnswerSource, Fallback
from piop.sampling.typicality import Typicality
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.batches.input_grid import evaluate_on_grids, is_even_grid
from piop.training.batches.training_grid import lay_out
from piop.training.build import Model
from piop.training.loss.known_functions import Functions
from piop.training.time_windows import Rollout

if TYPE_CHECKING:
    import xarray as xr

PAIRS_AT_ONCE = 2**20
"""Pairs of a query and a sensor or token evaluated together: bounds memory, and keeps the work
within the caches of a CPU."""
QUERIES_AT_ONCE = 2**14
"""Queries evaluated together at most."""
FEWEST_QUERIES = 16
"""Queries evaluated together at least, since every chunk encodes the inputs anew."""
SENSORS_AT_ONCE = 2**20
"""Sensors of all samples encoded together, unless one sample has more."""
POINTS_AT_ONCE = 2**16
"""Grid points of all samples evaluated together, unless one sample has more."""
COVARIANCES_AT_ONCE = 2**24
"""Covariances of sensors that are held at once, where inputs are interpolated from them."""
VALUES_AT_ONCE = 2**24
"""Products of a query and a grid point held at once in an interpolation."""


@torch.no_grad()
@flush_denormals()
def predict_values(problem: Problem, model: Model, inputs: Inputs, queries: Queries) -> Tensor:
    """Evaluate the operator, with its lift from the sensors.

    A pointwise operator is evaluated at a few samples and queries at a time; one evaluated on a
    grid at a few samples, and all queries of each together: on the requested grid where that is
    even and no coarser than the training grid; else on the training grid, from which its values are
    interpolated, as they are to points. A network that was trained on scattered data is evaluated
    at the points themselves.

    Args:
        problem: The problem.
        model: The operator and its lift.
        inputs: Sensors of B functions; empty for a problem without inputs.
        queries: Grid or points.

    Returns:
        ``[B, N, C]`` float64 on the CPU; on a grid the last coordinate varies fastest.

    Raises:
        UsageError: If the operator predicts only the final time and others are requested.
        DataError: If it needs the sensors of an input with jumps on an even grid, and they are not.
    """
    operator = model.operator
    if operator.end_only:
        _require_end(problem, queries)
    if operator.gridded:
        _require_even(model, inputs)
    points = queries.points if operator.gridded else queries.tensor()
    batches = [len(s.values) for s in inputs.values()] + [1 if points is None else len(points)]
    batch = max(batches)
    if len({*batches} - {1}) > 1:
        raise DataError(
            f"at: has the points of {batches[-1]} samples, and the inputs have {batches[0]}; "
            "expected the same number, or points for all"
        )
    inputs = {name: samples.repeat(batch) for name, samples in inputs.items()}
    count, many = math.prod(queries.shape), _queries_together(model, inputs)
    largest = count if model.rollout is None else max(count, model.rollout.points)
    size = max(1, min(batch, _samples_together(model, inputs, largest, many)))
    found = torch.empty(batch, count, len(problem.channels), dtype=torch.float64)
    parts = [slice(start, start + size) for start in range(0, batch, size)]
    if model.rollout is not None and points is not None:
        for part in parts:
            own = points if len(points) == 1 else points[part]
            observed = {n: s.take(part).to(operator.scale) for n, s in inputs.items()}
            needed = {n: observed[n] for n in needed_functions(model)}
            functions = interpolate_inputs(problem, needed)
            found[part] = evaluate_at(model, functions, observed, own.double(), many)
        return found
    observations = _observations(problem, model, inputs, batch, size)
    for part, (functions, observed) in zip(parts, observations, strict=True):
        own = points if points is None or len(points) == 1 else points[part]
        if own is None:
            seen = evaluate_on_grids(model.grids, functions, observed)
            found[part] = _on_axes(model, functions, seen, queries)
        else:
            found[part] = evaluate_at(model, functions, observed, own.double(), many)
    return found


def needed_functions(model: Model) -> tuple[str, ...]:
    """Name the inputs that a prediction needs as functions, interpolated from their sensors."""
    if model.rollout is not None:
        return model.rollout.needs
    known = () if model.known is None else model.known.names
    return tuple(sorted({*model.grids, *known}))


@torch.no_grad()
def evaluate_at(
    model: Model,
    functions: Functions,
    observed: Inputs,
    points: Tensor,
    many: int = QUERIES_AT_ONCE,
) -> Tensor:
    """Evaluate the operator of a few samples at points.

    Args:
        model: The operator and its lift.
        functions: The inputs of :func:`needed_functions`, as functions.
        observed: Sensors of all inputs, in the precision of the operator.
        points: ``[B or 1, N, D]`` float64.
        many: Queries to evaluate at once, where it is pointwise.

    Returns:
        ``[B, N, C]`` float64 on the CPU.
    """
    if model.rollout is not None:
        return _by_windows(model, model.rollout, functions, observed, points, many)
    observed = evaluate_on_grids(model.grids, functions, observed)
    if model.operator.gridded:
        return _jointly(model, functions, observed, points).double().cpu()
    return _pointwise(model, functions, observed, points, many)


def _require_end(problem: Problem, queries: Queries) -> None:
    time = problem.time
    if time is None:
        return
    times = queries.tensor()[..., 0] if queries.axes is None else queries.axes[time.name]
    other = times[(times - time.high).abs() > 1e-6 * time.length]
    if len(other):
        raise UsageError(
            f"at: {time.name} = {other[0].item():g}: this operator predicts only the final time; "
            f"request {time.name} = {time.high:g}"
        )


def _observations(
    problem: Problem, model: Model, inputs: Inputs, batch: int, size: int
) -> Iterator[tuple[Functions, Inputs]]:
    """Take so many samples at a time: the functions needed, and the sensors.

    Functions of more samples are interpolated together: sensors that are the same for all have one
    covariance matrix, which takes longer than a few samples.
    """
    like = model.operator.scale
    most = max([s.points.shape[1] for s in inputs.values()] + [1])
    together = size * max(1, COVARIANCES_AT_ONCE // most**2 // size)
    for first in range(0, batch, together):
        several = {n: s.take(slice(first, first + together)).to(like) for n, s in inputs.items()}
        functions = interpolate_inputs(problem, {n: several[n] for n in needed_functions(model)})
        for part in torch.arange(min(together, batch - first), device=like.device).split(size):
            own = {name: function.take(part) for name, function in functions.items()}
            yield own, {name: samples.take(part) for name, samples in several.items()}


def _queries_together(model: Model, inputs: Inputs) -> int:
    """Return the number of queries of all samples to evaluate at once."""
    sensors = {name: s.points.shape[1] for name, s in inputs.items()}
    sensors |= {name: math.prod(map(len, axes)) for name, axes in model.grids.items()}
    met = model.operator.backbone.context_length(sensors)
    return min(QUERIES_AT_ONCE, max(FEWEST_QUERIES, PAIRS_AT_ONCE // max(1, met)))


def _samples_together(model: Model, inputs: Inputs, count: int, many: int) -> int:
    """Return the number of samples to evaluate at once, at ``count`` queries each."""
    if model.operator.gridded:
        axes = model.training_grid
        return POINTS_AT_ONCE // (count if axes is None else math.prod(map(len, axes)))
    sensors = max([s.points.shape[1] for s in inputs.values()] + [1])
    return min(SENSORS_AT_ONCE // sensors, many // max(1, count))


def _pointwise(
    model: Model, functions: Functions, observed: Inputs, points: Tensor, many: int
) -> Tensor:
    """Evaluate a pointwise operator at ``points [B or 1, N, D]``, a few at a time."""
    found = []
    for chunk in chunks(points.shape[1], 1, many):
        at = points[:, chunk].to(model.operator.scale)
        lift = None if model.known is None else model.known(functions, at)
        found.append(model.operator(observed, at, lift).double().cpu())
    return torch.cat(found, 1)


def _by_windows(
    model: Model,
    rollout: Rollout,
    functions: Functions,
    observed: Inputs,
    points: Tensor,
    many: int,
) -> Tensor:
    """Evaluate the operator of a time window at ``points [B or 1, N, D]`` of the whole axis."""
    like = model.operator.scale

    def evaluate(functions: Functions, observed: Inputs, at: Tensor) -> Tensor:
        seen = evaluate_on_grids(model.grids, functions, observed)
        return _pointwise(model, functions, seen, at, many).to(like.device)

    return rollout.compose(functions, observed, points.to(like.device), evaluate).cpu()


def _on_axes(model: Model, functions: Functions, observed: Inputs, queries: Queries) -> Tensor:
    """Evaluate jointly on the grid of the queries: ``[B, N, C]``."""
    like, axes = model.operator.scale, [axis.double() for axis in (queries.axes or {}).values()]
    layout = lay_out(model.operator.backbone, model.training_grid or axes, axes).to(like)
    lift = None
    if model.known is not None:
        rows = model.known.on_grid(functions, [axis.to(like) for axis in axes])
        lift = rows.expand(len(rows), *map(len, axes), -1).flatten(1, -2)
    return model.operator.on_layout(observed, layout, lift)


def _jointly(model: Model, functions: Functions, observed: Inputs, points: Tensor) -> Tensor:
    """Evaluate jointly at ``points [B or 1, N, D]``, by interpolation from a training grid."""
    like = model.operator.scale
    at = points.to(like)
    lift = None if model.known is None else model.known(functions, at)
    if model.training_grid is None:
        return model.operator(observed, at, lift)
    ticks = [axis.to(like) for axis in model.training_grid]
    values = model.operator.increment(observed, ticks)
    axes = model.operator.backbone.signature.coordinates
    parts = chunks(points.shape[1], values[..., 0].numel(), VALUES_AT_ONCE)
    found = [interpolate_grid(values, model.training_grid, axes, points[:, p]) for p in parts]
    return torch.cat(found, 1) + (model.operator.mean if lift is None else lift)


def _require_even(model: Model, inputs: Inputs) -> None:
    for entry in model.operator.backbone.signature.functions:
        rough = entry.gridded and not entry.smooth and entry.name not in model.grids
        if rough and not is_even_grid(inputs[entry.name]):
            raise DataError(
                f"input {entry.name!r}: this operator was trained on sensors on an even grid, and "
                f"cannot locate jumps from others; give values on a grid"
            )


def as_dataset(
    problem: Problem, queries: Queries, values: Tensor, attributes: Mapping[str, Any]
) -> xr.Dataset:
    """Return a prediction as a data set of xarray, with names and units.

    Args:
        problem: The problem whose names and units are used.
        queries: Grid or points of the prediction.
        values: ``[B, N, C]``.
        attributes: Attributes of the data set.

    Returns:
        A variable per channel over ``sample`` and the coordinates (or ``point``).
    """
    import xarray as xr  # slow to import, and training does not need it

    coordinates, arrays = {}, values.reshape(len(values), *queries.shape, -1).numpy()
    names = [*(c.name for c in problem.coordinates), *problem.channels]
    own = {name: {"long_name": name} for name in names}
    for name, unit in problem.units.items():
        own.setdefault(name, {})["units"] = str(unit)
    dimensions: tuple[str, ...] = ("sample", *(c.name for c in problem.coordinates))
    if queries.points is None:
        for name, positions in (queries.axes or {}).items():
            coordinates[name] = (name, positions.numpy(), own[name])
    else:
        dimensions = ("sample", "point")
        points = queries.points.expand(len(values), -1, -1).numpy()
        for i, c in enumerate(problem.coordinates):
            coordinates[c.name] = (dimensions, points[..., i], own[c.name])
    variables = {
        name: (dimensions, np.ascontiguousarray(arrays[..., i]), own[name])
        for i, name in enumerate(problem.channels)
    }
    return xr.Dataset(variables, coordinates, dict(attributes))


def add_typicality(prediction: xr.Dataset, found: Typicality) -> None:
    """Add to a prediction, for each sample, how typical its inputs are of the distribution.

    Args:
        prediction: As of :func:`as_dataset`.
        found: The result of the test, of every sample or of one for all.
    """
    count = prediction.sizes["sample"]
    _add(prediction, IN_DISTRIBUTION, found.inside.expand(count).to(torch.int8))
    _add(prediction, P_VALUE, found.p_value.expand(count))


def add_sensor_error(prediction: xr.Dataset, error: Tensor) -> None:
    """Add to a prediction the error ``[B]`` that comes from its sensors being few."""
    _add(prediction, SENSOR_ERROR, error)


def add_error_bounds(
    prediction: xr.Dataset,
    estimate: Tensor,
    bounds: Mapping[str, Tensor],
    measured: Mapping[str, Tensor],
    attributes: Mapping[str, Any],
) -> None:
    """Add to a prediction, for each sample, how large its error is.

    Args:
        prediction: As of :func:`as_dataset`.
        estimate: Typical error of predictions that look like it ``[B]``.
        bounds: By unknown, and under an empty name that of all together ``[B]``.
        measured: What the bounds follow from, by the name of its variable ``[B]``.
        attributes: What the bounds hold for.
    """
    _add(prediction, ESTIMATE, estimate)
    for name, bound in bounds.items() if len(bounds) > 2 else [("", bounds[""])]:
        of = {"long_name": f"bound of the relative L2 error of {name}"} if name else {}
        _add(
            prediction, f"{ERROR_BOUND}_{name}" if name else ERROR_BOUND, bound, **attributes, **of
        )
    for name, values in measured.items():
        _add(prediction, name, values)


def add_bounds_over_time(
    prediction: xr.Dataset, time: str, bounds: Tensor, attributes: Mapping[str, Any]
) -> None:
    """Add to a prediction on a grid how large its error is at each time.

    Args:
        prediction: As of :func:`as_dataset`.
        time: Name of the time axis.
        bounds: ``[B, T]``.
        attributes: What the bounds hold for.
    """
    if BOUND_OVER_TIME not in prediction.variables:  # an unknown of the spec may be called so
        own = {**PREDICTION_VARIABLES[BOUND_OVER_TIME], **attributes}
        prediction[BOUND_OVER_TIME] = (("sample", time), bounds.numpy().copy(), own)


def put_solutions(
    prediction: xr.Dataset, channels: Sequence[str], rows: Tensor, solved: Fallback
) -> None:
    """Put solutions of the reference solver in place of predictions, and say which are which.

    Args:
        prediction: As of :func:`as_dataset`, with error bounds.
        channels: The channels of the solutions.
        rows: Numbers of the samples that exceed the tolerance.
        solved: What the solver found for them.
    """
    count = prediction.sizes["sample"]
    source = torch.full((count,), AnswerSource.OPERATOR, dtype=torch.int8)
    source[rows] = AnswerSource.UNSOLVED
    good = rows[solved.solved]
    source[good] = AnswerSource.SOLVER
    for channel, name in enumerate(channels):
        array = prediction[name].values
        array[good] = solved.values[solved.solved][..., channel].reshape(-1, *array.shape[1:])
    bounds = {str(n) for n in prediction.data_vars if str(n).startswith(f"{ERROR_BOUND}_")}
    for name in {ESTIMATE, ERROR_BOUND, *bounds}.difference(channels):
        own = prediction[name].values
        own[good] = solved.errors[solved.solved] if own.ndim == 1 else np.nan  # none at each time
    _add(prediction, SOURCE, source)


def _add(prediction: xr.Dataset, name: str, values: Tensor, **attributes: Any) -> None:
    if name in prediction.variables:
        return  # an unknown of the spec is called so
    usual = PREDICTION_VARIABLES[name if name in PREDICTION_VARIABLES else ERROR_BOUND]
    own = values.expand(prediction.sizes["sample"]).numpy().copy()
    prediction[name] = ("sample", own, {**usual, **attributes})
