"""How good an operator is: relative L2 on held-out inputs, seen through sensors only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from piop.datasets import Dataset, Queries
from piop.errors import UsageError
from piop.fields import FunctionSamples, InputFunction
from piop.metrics import relative_l2, relative_l2_by_time, summarise, trivial_baselines, unbeaten
from piop.problem import Problem
from piop.problem.inputs import asked_coordinates, history_of
from piop.reference import solve_reference
from piop.run.arguments import save_grid
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation, observe, place_sensors, sample_inputs
from piop.training.batches.input_grid import on_lattices
from piop.training.batches.noise import add_noise, noise_levels
from piop.training.config import TrainingConfig
from piop.training.operator import OperatorField
from piop.training.setup import Model, residual_of_model

GRID_LIMITS = {1: (21, 128), 2: (6, 32), 3: (6, 16)}
"""Times and points per space axis of the evaluation, at most, by the number of space axes."""
RESIDUAL_SAMPLES, RESIDUAL_POINTS = 16, 512

Sensors = Mapping[str, tuple[int | Sequence[int], str]]


@dataclass(frozen=True)
class HeldOut:
    """Inputs that were never trained on, and their solutions.

    Attributes:
        functions: The inputs themselves; empty for data.
        inputs: What the operator sees of them.
        queries: Where the solutions are.
        truth: Channel → ``[B, *queries.shape]`` float64.
        error_estimate: Relative L2 error of the truth ``[B]``; None where it is unknown.
        accepted: Whether the truth reached its tolerance ``[B]``.
        start: Channel → ``[B, *space]``, the last that is seen of a solution whose past is shown;
            empty otherwise.
    """

    functions: Mapping[str, InputFunction]
    inputs: Mapping[str, FunctionSamples]
    queries: Queries
    truth: Mapping[str, Tensor]
    error_estimate: Tensor | None
    accepted: Tensor
    start: Mapping[str, Tensor] = field(default_factory=dict)


def held_out_draws(seed: int, samples: int) -> Draws:
    """Key the held-out inputs: another seed than any training of that seed uses."""
    return Draws((seed + 0x9E3779B9) % 2**32, 0, torch.arange(samples))


def held_out_from_distribution(
    problem: Problem,
    samples: int,
    seed: int,
    queries: Queries | None = None,
    sensors: Sensors | None = None,
    end: bool = False,
) -> HeldOut:
    """Draw held-out inputs from the law and solve for their references.

    Args:
        problem: The problem.
        samples: B, how many.
        seed: Of the run they are held out from.
        queries: Grid of the references; by default the thinned ``save`` grid.
        sensors: Input → (count or counts per axis, place), where not as in the spec.
        end: Judge at the last time alone, for operators that know no other.

    Raises:
        UsageError: If sensors are asked for of what is no visible input, or cannot be placed so.
        NotSupportedError: If no reference solver covers the problem.
        SolverError: If the reference fails.
    """
    draws = held_out_draws(seed, samples)
    functions = sample_inputs(problem, draws)
    queries = queries or save_grid(problem, GRID_LIMITS[len(problem.space)], end)
    axes = queries.axes or {}
    space = tuple(len(axes[c.name]) for c in problem.space)
    times = None if problem.time is None else axes[problem.time.name]
    solution = solve_reference(problem, functions, times=times, shape=space)
    there = None if solution.points is None else solution.points.cpu()
    seen = observe(functions, problem, draws, points=there)
    return HeldOut(
        functions,
        seen | observed_at(problem, functions, draws, sensors),
        queries if there is None else Queries(points=there),
        {name: value.double().cpu() for name, value in solution.values.items()},
        solution.error_estimate.cpu(),
        solution.accepted.cpu(),
    )


def observed_at(
    problem: Problem,
    functions: Mapping[str, InputFunction],
    draws: Draws,
    sensors: Sensors | None,
) -> dict[str, FunctionSamples]:
    """See inputs at other sensors than the spec's.

    Raises:
        UsageError: If sensors are asked for of what is no visible input, or cannot be placed so.
    """
    items = {item.name: item for item in problem.visible_inputs}
    found = {}
    for name, (counts, place) in (sensors or {}).items():
        if name not in items:
            raise UsageError(f"sensors: {name!r} is not a visible input; one of {', '.join(items)}")
        shape = (counts,) if isinstance(counts, int) else tuple(counts)
        try:
            item = replace(items[name], sensor_shape=shape, place=place)
            points = place_sensors(problem, item, draws)
        except ValueError as error:
            raise UsageError(f"sensors.{name}: {error}") from error
        found[name] = FunctionSamples(points, functions[name](points)[..., None])
    return found


def held_out_from_data(problem: Problem, data: Dataset, end: bool = False) -> HeldOut:
    """Take held-out trajectories of a data set.

    Args:
        problem: The problem.
        data: The trajectories.
        end: Keep the last time alone, for operators that know no other.
    """
    start: dict[str, Tensor] = {}
    if history_of(problem) is not None:
        start = {name: data.values[name][:, 0].double() for name in problem.unknowns}
        data = _rest(problem, data)
    if end and data.points is None and problem.time is not None:
        data = data.last_along(problem.time.name)
    queries = (
        Queries(points=data.points)
        if data.points is not None
        else Queries(axes={c.name: data.axes[c.name] for c in problem.coordinates})
    )
    truth = {name: data.values[name].double() for name in problem.channels if name in data.values}
    accepted = torch.ones(len(data), dtype=torch.bool)
    return HeldOut({}, data.inputs, queries, truth, data.error_estimate, accepted, start)


def _rest(problem: Problem, data: Dataset) -> Dataset:
    """Leave out the end of the past, the first time, which the operator was shown."""
    name = asked_coordinates(problem)[0].name
    axes = {**data.axes, name: data.axes[name][1:]}
    return replace(data, axes=axes, values={n: v[:, 1:] for n, v in data.values.items()})


def predict_held_out(problem: Problem, model: Model, held_out: HeldOut) -> dict[str, Tensor]:
    """Predict the held-out solutions from the sensors: channel → ``[B, *queries.shape]``."""
    queries = held_out.queries
    values = predict_values(problem, model, held_out.inputs, queries)
    shape = (-1, *queries.shape)
    return {name: values[..., c].reshape(shape) for c, name in enumerate(problem.channels)}


def errors_of(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """Relative L2 of each sample ``[B]``, the mean over the channels of the truth."""
    return torch.stack([relative_l2(prediction[name], truth[name]) for name in truth]).mean(0)


def baseline_errors(
    problem: Problem,
    truth: Mapping[str, Tensor],
    axes: Mapping[str, Tensor] | None = None,
    seen: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Errors ``[B]`` of the trivial answers, the mean over the channels of the truth.

    Args:
        problem: The problem.
        truth: Channel → ``[B, *grid]``.
        axes: Positions along each coordinate: without the initial time there is no staying at it.
        seen: Where to stay instead: the last of a past that was shown.
    """
    time = problem.time
    marches = time is not None and next(iter(truth.values())).ndim > 2
    if axes is not None and time is not None:
        marches = bool((axes[time.name][0] - time.low).abs() <= 1e-6 * time.length)
    found: dict[str, list[Tensor]] = {}
    for channel, value in truth.items():
        start = value[:, 0] if marches else (seen or {}).get(channel)
        for name, errors in trivial_baselines(value, start).items():
            found.setdefault(name, []).append(errors)
    return {name: torch.stack(errors).mean(0) for name, errors in found.items()}


def error_over_time(
    problem: Problem, prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor], axes: Any
) -> dict[str, list[float | None]] | None:
    """Relative L2 at each time, the mean over samples and channels; None without a time axis.

    Where the truth is zero, as before anything has happened, there is no relative error: None.
    """
    if axes is None or problem.time is None:
        return None
    each = [relative_l2_by_time(prediction[name], truth[name]).mean(0) for name in truth]
    errors = torch.stack(each).mean(0).tolist()
    known = [error if math.isfinite(error) else None for error in errors]
    return {problem.time.name: axes[problem.time.name].tolist(), "relative_l2": known}


@torch.no_grad()
def mean_residual(
    problem: Problem, model: Model, config: TrainingConfig, seed: int
) -> dict[str, float]:
    """Root mean square of each equation's residual for held-out inputs.

    At random points, or on the grid of an operator that answers on one; nothing for one that
    answers at the end of the time alone, or on scattered points together.
    """
    if ends_only(model) or (model.operator.gridded and model.home is None):
        return {}
    try:
        residual = residual_of_model(problem, model, config)
    except UsageError:  # the grid of the data it was trained on holds no differences
        return {}
    draws = held_out_draws(seed, RESIDUAL_SAMPLES)
    like = model.operator.scale
    draws = Draws(draws.seed, 0, draws.index, like.device)
    functions = sample_inputs(problem, draws, like.dtype)
    queries = residual.place(lambda: collocation(problem, draws, RESIDUAL_POINTS).to(like))
    lift = None if model.known is None else residual.compile_lift(model.known.expressions)
    rows = None if lift is None else lift(functions, queries)
    seen = on_lattices(model.grids, functions, observe(functions, problem, draws, like.dtype))
    field = OperatorField(model.operator, seen, lift, rows)
    found = residual(field, queries, residual.evaluate_inputs(functions, queries))
    sizes = found.values.square().mean((0, 1)).sqrt().tolist()
    return {f"equation {e + 1}": size for e, size in enumerate(sizes)}


def ends_only(model: Model) -> bool:
    """Tell whether an operator answers at the end of the time axis alone."""
    return getattr(model.operator.backbone, "times", "any") == "end"


def nonzero_solutions(problem: Problem, held_out: HeldOut) -> Tensor:
    """Tell which solutions ``[B]`` an error can be relative to: those with no unknown zero."""
    judged = [held_out.truth[n] for n in problem.unknowns if n in held_out.truth]
    return torch.stack([value.flatten(1).any(1) for value in judged]).all(0)


def errors_by_noise(
    problem: Problem,
    model: Model,
    held_out: HeldOut,
    scales: Mapping[str, Sequence[float]],
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Judge an operator at each level of noise that its inputs are seen with.

    Args:
        problem: The problem, which states the levels.
        model: The operator.
        held_out: What the data say.
        scales: Standard deviations of the inputs, as the run's statistics have them.
        seed: Of the noise, which is the same but for its size at every level.

    Returns:
        Level → ``mean``, ``std`` and ``per_sample`` of the relative L2 errors.
    """
    judged = {n: held_out.truth[n] for n in problem.unknowns if n in held_out.truth}
    count, found = len(held_out.accepted), {}
    for level in noise_levels(problem):
        levels = torch.full((count,), level, dtype=torch.float64)
        inputs = add_noise(held_out.inputs, scales, levels, held_out_draws(seed, count))
        prediction = predict_held_out(problem, model, replace(held_out, inputs=inputs))
        found[f"{level:g}"] = summarise(errors_of(prediction, judged)).to_dict()
    return found


def compare_with_truth(problem: Problem, model: Model, held_out: HeldOut) -> dict[str, Any]:
    """Compare an operator with held-out solutions.

    Returns:
        What ``evaluation.json`` holds, but for what the run adds.
    """
    kept = nonzero_solutions(problem, held_out)
    still = (~kept).nonzero().flatten().tolist()
    said = f"{len(still)} of {len(kept)} solutions are zero, to which no error is relative"
    if len(still) == len(kept):
        return {"relative_l2": None, "warnings": [said]}
    prediction = {n: v[kept] for n, v in predict_held_out(problem, model, held_out).items()}
    truth = {n: v[kept] for n, v in held_out.truth.items()}
    judged = {n: truth[n] for n in problem.unknowns if n in truth}
    errors = errors_of(prediction, judged)
    trivial = baseline_errors(problem, judged, held_out.queries.axes, held_out.start)
    summary = summarise(errors)
    warnings = [
        f"the operator ({summary}) does not beat the trivial answer {name!r} "
        f"({summarise(trivial[name])})"
        for name in unbeaten(errors, trivial)
    ]
    if still:
        warnings.append(f"{said}; they are left out (sample {', '.join(map(str, still[:8]))})")
    refused = int((~held_out.accepted[kept]).sum())
    if refused:
        warnings.append(
            f"{refused} of {len(errors)} references did not reach their tolerance; "
            "their errors are known less exactly"
        )
    estimate = held_out.error_estimate
    return {
        "relative_l2": summary.to_dict(),
        "per_channel": {
            name: summarise(relative_l2(prediction[name], value)).mean
            for name, value in truth.items()
        },
        "per_time": error_over_time(problem, prediction, judged, held_out.queries.axes),
        "reference": {
            "error_estimate": None if estimate is None else float(estimate.max()),
            "accepted": len(errors) - refused,
        },
        "baselines": {name: summarise(value).mean for name, value in trivial.items()},
        "samples": len(errors),
        "warnings": warnings,
    }
