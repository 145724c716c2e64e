"""How good an operator is: relative L2 on held-out inputs, seen through sensors only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from piop.datasets import Dataset, Queries
from piop.fields import FunctionSamples, InputFunction
from piop.problem import Problem
from piop.reference import solve_reference
from piop.residual import compile_residual
from piop.run.prediction import predict_values, save_grid
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.training.operator import field_of
from piop.training.setup import Model

GRID_LIMITS = (21, 64)
"""Times and points per space axis of the evaluation, at most."""
RESIDUAL_SAMPLES, RESIDUAL_POINTS = 16, 512


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
    """

    functions: Mapping[str, InputFunction]
    inputs: Mapping[str, FunctionSamples]
    queries: Queries
    truth: Mapping[str, Tensor]
    error_estimate: Tensor | None
    accepted: Tensor


def held_out_draws(seed: int, samples: int) -> Draws:
    """Key the held-out inputs: another seed than any training of that seed uses."""
    return Draws((seed + 0x9E3779B9) % 2**32, 0, torch.arange(samples))


def hold_out_law(
    problem: Problem, samples: int, seed: int, queries: Queries | None = None
) -> HeldOut:
    """Draw held-out inputs from the law and solve for their references.

    Raises:
        NotSupportedError: If no reference solver covers the problem.
        SolverError: If the reference fails.
    """
    draws = held_out_draws(seed, samples)
    functions = sample_inputs(problem, draws)
    queries = queries or save_grid(problem, GRID_LIMITS)
    axes = queries.axes or {}
    space = tuple(len(axes[c.name]) for c in problem.space)
    times = None if problem.time is None else axes[problem.time.name]
    solution = solve_reference(problem, functions, times=times, shape=space)
    return HeldOut(
        functions,
        observe(functions, problem, draws),
        queries,
        {name: value.double().cpu() for name, value in solution.values.items()},
        solution.error_estimate.cpu(),
        solution.accepted.cpu(),
    )


def hold_out_data(problem: Problem, data: Dataset) -> HeldOut:
    """Take held-out trajectories of a data set."""
    queries = (
        Queries(points=data.points)
        if data.points is not None
        else Queries(axes={c.name: data.axes[c.name] for c in problem.coordinates})
    )
    truth = {name: data.values[name].double() for name in problem.channels if name in data.values}
    accepted = torch.ones(len(data), dtype=torch.bool)
    return HeldOut({}, data.inputs, queries, truth, data.error_estimate, accepted)


def predict_held_out(problem: Problem, model: Model, held_out: HeldOut) -> dict[str, Tensor]:
    """Predict the held-out solutions from the sensors: channel → ``[B, *queries.shape]``."""
    queries = held_out.queries
    values = predict_values(problem, model, held_out.inputs, queries.tensor().double())
    shape = (-1, *queries.shape)
    return {name: values[..., c].reshape(shape) for c, name in enumerate(problem.channels)}


def relative_l2(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """‖prediction − truth‖ / ‖truth‖ of each sample, the mean over the channels of the truth.

    Args:
        prediction: Channel → ``[B, …]``.
        truth: Channel → ``[B, …]``.

    Returns:
        ``[B]``, dimensionless. Points of an even grid weigh the same.
    """
    ratios = []
    for name, value in truth.items():
        error = (prediction[name] - value).flatten(1).norm(dim=1)
        ratios.append(error / value.flatten(1).norm(dim=1).clamp(min=1e-30))
    return torch.stack(ratios).mean(0)


def baselines(problem: Problem, truth: Mapping[str, Tensor], gridded: bool) -> dict[str, float]:
    """Score the trivial answers: staying at u0, and the mean of the other solutions."""
    found: dict[str, float] = {}
    if gridded and problem.time is not None:
        still = {name: v[:, :1].expand_as(v) for name, v in truth.items()}
        found["stays at u0"] = float(relative_l2(still, truth).mean())
    count = len(next(iter(truth.values())))
    if count > 1:
        others = {n: (v.sum(0, keepdim=True) - v) / (count - 1) for n, v in truth.items()}
        found["mean of the solutions"] = float(relative_l2(others, truth).mean())
    return found


def over_time(
    problem: Problem, prediction: Mapping[str, Tensor], held_out: HeldOut
) -> dict[str, list[float]] | None:
    """Relative L2 at each time, the mean over the samples; None without a time axis."""
    axes = held_out.queries.axes
    if axes is None or problem.time is None:
        return None
    times = axes[problem.time.name].tolist()
    errors = [
        float(
            relative_l2(
                {n: prediction[n][:, i] for n in held_out.truth},
                {n: v[:, i] for n, v in held_out.truth.items()},
            ).mean()
        )
        for i in range(len(times))
    ]
    return {problem.time.name: times, "relative_l2": errors}


@torch.no_grad()
def mean_residual(problem: Problem, model: Model, seed: int) -> dict[str, float]:
    """Root mean square of each equation's residual at random points of held-out inputs."""
    residual = compile_residual(problem)
    draws = held_out_draws(seed, RESIDUAL_SAMPLES)
    like = model.operator.scale
    draws = Draws(draws.seed, 0, draws.index, like.device)
    functions = sample_inputs(problem, draws, like.dtype)
    queries = collocation(problem, draws, RESIDUAL_POINTS).to(like)
    lift = None if model.known is None else residual.compile_lift(model.known.expressions)
    rows = None if lift is None else lift(functions, queries)
    seen = observe(functions, problem, draws, like.dtype)
    field = field_of(model.operator, seen, lift, rows)
    found = residual(field, queries, residual.evaluate_inputs(functions, queries))
    sizes = found.values.square().mean((0, 1)).sqrt().tolist()
    return {f"equation {e + 1}": size for e, size in enumerate(sizes)}


def report(problem: Problem, model: Model, held_out: HeldOut) -> dict[str, Any]:
    """Compare an operator with held-out solutions.

    Returns:
        What ``evaluation.json`` holds, but for what the run adds.
    """
    prediction = predict_held_out(problem, model, held_out)
    own = {name: prediction[name] for name in held_out.truth}
    judged = {name: held_out.truth[name] for name in problem.unknowns if name in held_out.truth}
    errors = relative_l2(own, judged or held_out.truth)
    trivial = baselines(problem, judged or held_out.truth, held_out.queries.axes is not None)
    estimate = held_out.error_estimate
    mean = float(errors.mean())
    warnings = [
        f"the operator ({mean:.3g}) does not beat the trivial answer {name!r} ({value:.3g})"
        for name, value in trivial.items()
        if not mean < value
    ]
    refused = int((~held_out.accepted).sum())
    if refused:
        warnings.append(
            f"{refused} of {len(errors)} references did not reach their tolerance; "
            "their errors are known less exactly"
        )
    return {
        "relative_l2": {
            "mean": mean,
            "std": float(errors.std()) if len(errors) > 1 else 0.0,
            "per_sample": errors.tolist(),
        },
        "per_channel": {
            name: float(relative_l2({name: own[name]}, {name: value}).mean())
            for name, value in held_out.truth.items()
        },
        "per_time": over_time(problem, prediction, held_out),
        "reference": {
            "error_estimate": None if estimate is None else float(estimate.max()),
            "accepted": len(errors) - refused,
        },
        "baselines": trivial,
        "samples": len(errors),
        "warnings": warnings,
    }
