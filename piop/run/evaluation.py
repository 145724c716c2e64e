"""The accuracy of an operator: relative L2 errors on held-out inputs known at sensors only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from piop.denormals import flush_denormals
from piop.errors import UsageError
from piop.metrics import relative_l2, relative_l2_by_time, summarise, trivial_baselines, unbeaten
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.residual import Residual
from piop.run.held_out import HeldOut, Judge
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.sampling.random import HELD_OUT
from piop.training.batches.input_grid import evaluate_on_grids
from piop.training.batches.noise import add_noise, noise_levels
from piop.training.build import Model, residual_of_model
from piop.training.config import TrainingConfig
from piop.training.loss.known_functions import Functions
from piop.training.operator import OperatorField

RESIDUAL_SAMPLES, RESIDUAL_POINTS = 16, 128
"""Held-out inputs and points of the mean residual."""
RESIDUAL_AT_ONCE = 4
"""Inputs whose residual is evaluated together, so that the work stays within the caches of a CPU.
"""


def predict_held_out(problem: Problem, model: Model, held_out: HeldOut) -> dict[str, Tensor]:
    """Predict the held-out solutions from the sensors: channel → ``[B, *queries.shape]``."""
    queries = held_out.queries
    values = predict_values(problem, model, held_out.inputs, queries)
    values = values.expand(len(held_out.accepted), *values.shape[1:])  # one without inputs
    shape = (-1, *queries.shape)
    return {name: values[..., c].reshape(shape) for c, name in enumerate(problem.channels)}


def errors_of(prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> Tensor:
    """Return the relative L2 error of each sample ``[B]``, averaged over the channels."""
    return torch.stack([relative_l2(prediction[name], truth[name]) for name in truth]).mean(0)


@final
@dataclass(frozen=True)
class OperatorJudge(Judge):
    """An operator as it is judged.

    Attributes:
        problem: The problem.
        model: The operator.
    """

    problem: Problem
    model: Model

    def predict(self, held_out: HeldOut) -> dict[str, Tensor]:
        """See the base class."""
        return predict_held_out(self.problem, self.model, held_out)

    def errors(self, held_out: HeldOut, prediction: Mapping[str, Tensor]) -> Tensor:
        """Return the relative L2 error of each sample ``[B]``; NaN where undefined."""
        kept, _ = comparable_samples(self.problem, held_out, prediction)
        judged = {n: held_out.truth[n] for n in self.problem.unknowns if n in held_out.truth}
        return errors_of(prediction, judged).where(kept, torch.nan)


def baseline_errors(
    problem: Problem,
    truth: Mapping[str, Tensor],
    axes: Mapping[str, Tensor] | None = None,
    last: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return the errors ``[B]`` of trivial predictions, averaged over the channels.

    Args:
        problem: The problem.
        truth: Channel → ``[B, *grid]``.
        axes: Positions along each coordinate; without the initial time among them no prediction
            stays at it.
        last: Channel → the last observed time of a history, at which a prediction stays instead.
    """
    time = problem.time
    evolves = time is not None and next(iter(truth.values())).ndim > 2
    if axes is not None and time is not None:
        evolves = bool((axes[time.name][0] - time.low).abs() <= 1e-6 * time.length)
    found: dict[str, list[Tensor]] = {}
    for channel, value in truth.items():
        start = value[:, 0] if evolves else (last or {}).get(channel)
        for name, errors in trivial_baselines(value, start).items():
            found.setdefault(name, []).append(errors)
    return {name: torch.stack(errors).mean(0) for name, errors in found.items()}


def error_over_time(
    problem: Problem, prediction: Mapping[str, Tensor], truth: Mapping[str, Tensor], axes: Any
) -> dict[str, list[float | None]] | None:
    """Return the mean relative L2 error at each time; None without a time axis.

    The error is None at times at which the truth is zero, such as the start from rest.
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
) -> tuple[dict[str, float], list[str]]:
    """Return the root mean square of the residual of each equation for held-out inputs; warnings.

    The residual is taken at random points, or on the grid of an operator evaluated on one. The
    result is empty for an operator that predicts the final time alone, or scattered points jointly,
    and where the equations cannot be evaluated. Inputs with a residual that is not finite are left
    out, and counted in a warning.
    """
    if not problem.capabilities.equations or model.operator.end_only:
        return {}, []
    if model.operator.gridded and model.training_grid is None:
        return {}, []
    try:
        residual = residual_of_model(problem, model, config)
    except UsageError:  # the grid of the data it was trained on holds no differences
        return {}, []
    like = model.operator.scale
    draws = Draws.of(HELD_OUT, seed, range(RESIDUAL_SAMPLES), config.machine.draws)
    draws = replace(draws, index=draws.index.to(like.device))
    functions = sample_inputs(problem, draws, like.dtype)
    queries = residual.place(lambda: collocation(problem, draws, RESIDUAL_POINTS).to(like))
    observed = observe(functions, problem, draws, like.dtype)
    found = []
    for rows in torch.arange(RESIDUAL_SAMPLES, device=like.device).split(RESIDUAL_AT_ONCE):
        own = {name: function.take(rows) for name, function in functions.items()}
        seen = {name: samples.take(rows) for name, samples in observed.items()}
        at = queries if len(queries) == 1 else queries[rows]
        found.append(residual_at_points(model, residual, own, seen)(at))
    squares = torch.cat(found).double().square()
    finite = squares.flatten(1).isfinite().all(1)
    sizes = squares[finite].mean((0, 1)).sqrt().tolist()  # NaN where no input is left
    missing = int((~finite).sum())
    reason = f"the residual of {missing} of {len(finite)} inputs is not finite; they are left out"
    return {f"equation {e + 1}": s for e, s in enumerate(sizes)}, [reason] if missing else []


def residual_at_points(
    model: Model,
    residual: Residual,
    functions: Functions,
    observed: Inputs,
) -> Callable[[Tensor], Tensor]:
    """Return the residual of an operator as a function of the queries: ``[B, N, E]``."""
    lift = None
    if model.known is not None and model.operator.potential is None:
        lift = residual.compile_lift(model.known.expressions)

    @flush_denormals()
    def at(functions: Functions, observed: Inputs, queries: Tensor) -> Tensor:
        known = None if lift is None else lift(functions, queries)
        seen = evaluate_on_grids(model.grids, functions, observed)
        field = OperatorField(model.operator, seen, lift, known)
        return residual(field, queries, residual.evaluate_inputs(functions, queries)).values

    if (rollout := model.rollout) is not None:
        return lambda queries: rollout.compose(functions, observed, queries, at)
    return lambda queries: at(functions, observed, queries)


def nonzero_solutions(problem: Problem, held_out: HeldOut) -> Tensor:
    """Mark the solutions ``[B]`` that have a relative error: no unknown of them is zero."""
    judged = [held_out.truth[n] for n in problem.unknowns if n in held_out.truth]
    return torch.stack([value.flatten(1).any(1) for value in judged]).all(0)


def judging_samples(problem: Problem, held_out: HeldOut) -> Tensor:
    """Mark the samples ``[B]`` whose references are finite and have a relative error."""
    return _all_finite(held_out.truth) & nonzero_solutions(problem, held_out)


def inputs_of(found: Mapping[str, Any]) -> str:
    """Name the inputs of the content of an ``evaluation.json``."""
    source = found["data"] if "data" in found else f"seed {found['seed']}"
    return f"{found['samples']} inputs of {source}"


def errors_by_noise(
    problem: Problem,
    model: Model,
    held_out: HeldOut,
    scales: Mapping[str, Sequence[float]],
    draws: Draws,
) -> tuple[dict[str, dict[str, Any] | None], list[str]]:
    """Evaluate an operator at each level of noise of its inputs.

    Args:
        problem: The problem, which states the levels.
        model: The operator.
        held_out: Held-out inputs without noise.
        scales: Standard deviations of the inputs in the statistics of the run.
        draws: Draws of the noise, which differs between levels only in its size.

    Returns:
        Level → ``mean``, ``std`` and ``per_sample`` of the relative L2 errors, None where no sample
        has one; and warnings of levels at which more samples are left out than without noise.
    """
    judged = {n: held_out.truth[n] for n in problem.unknowns if n in held_out.truth}
    count, found, warnings = len(held_out.accepted), {}, []
    known = judging_samples(problem, held_out)
    for level in noise_levels(problem):
        levels = torch.full((count,), level, dtype=torch.float64)
        inputs = add_noise(held_out.inputs, scales, levels, draws)
        prediction = predict_held_out(problem, model, replace(held_out, inputs=inputs))
        kept, _ = comparable_samples(problem, held_out, prediction)
        errors = errors_of(prediction, judged)[kept]
        found[f"{level:g}"] = summarise(errors).to_dict() if len(errors) else None
        if missing := int((known & ~kept).sum()):
            warnings.append(
                f"noise of {100 * level:g} %: {missing} of {count} errors are not finite; they are "
                "left out"
            )
    return found, warnings


def _all_finite(values: Mapping[str, Tensor]) -> Tensor:
    """Mark the samples ``[B]`` all of whose values are finite numbers."""
    return torch.stack([v.flatten(1).isfinite().all(1) for v in values.values()]).all(0)


def comparable_samples(
    problem: Problem, held_out: HeldOut, prediction: Mapping[str, Tensor]
) -> tuple[Tensor, list[str]]:
    """Mark the samples ``[B]`` that have a relative error; warnings that count the others."""
    rest, warnings = nonzero_solutions(problem, held_out), []
    total = len(rest)

    def note(marked: Tensor, reason: str) -> None:
        if count := int(marked.sum()):
            numbers = marked.nonzero().flatten().tolist()
            first = ", ".join(map(str, numbers[:8])) + (" …" if count > 8 else "")
            end = "" if count == total else f"; they are left out (sample {first})"
            warnings.append(f"{count} of {total} {reason}{end}")

    note(~rest, "solutions are zero, so no relative error is defined")
    judged = {n: held_out.truth[n] for n in problem.unknowns if n in held_out.truth}
    for marked, reason in (
        (_all_finite(held_out.truth), "reference solutions are not finite (NaN or infinity)"),
        (_all_finite(prediction), "predictions are not finite (NaN or infinity)"),
        (errors_of(prediction, judged).isfinite(), "relative errors are too large for a number"),
    ):
        note(rest & ~marked, reason)
        rest = rest & marked
    return rest, warnings


def compare_with_truth(
    problem: Problem, held_out: HeldOut, prediction: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Compare predictions with held-out solutions.

    Returns:
        The content of ``evaluation.json``, except what the run adds.
    """
    kept, left_out = comparable_samples(problem, held_out, prediction)
    if not bool(kept.any()):
        return {"relative_l2": None, "warnings": left_out}
    prediction = {name: value[kept] for name, value in prediction.items()}
    truth = {n: v[kept] for n, v in held_out.truth.items()}
    judged = {n: truth[n] for n in problem.unknowns if n in truth}
    errors = errors_of(prediction, judged)
    trivial = baseline_errors(problem, judged, held_out.queries.axes, held_out.start)
    summary = summarise(errors)
    warnings = [
        f"the operator ({summary}) does not beat the trivial prediction {name!r} "
        f"({summarise(trivial[name])})"
        for name in unbeaten(errors, {n: e for n, e in trivial.items() if e.isfinite().all()})
    ]
    if warnings:
        warnings[-1] += (
            "; train longer (piop resume RUN --time 10m), then see 'When training fails' in "
            "docs/training.md"
        )
    warnings += left_out
    refused = int((~held_out.accepted[kept]).sum())
    if refused:
        warnings.append(
            f"{refused} of {len(errors)} references did not reach their tolerance, a tenth of the "
            "operator's error or the solver's own; their errors are known less exactly"
        )
    estimate = held_out.error_estimate
    return {
        "relative_l2": summary.to_dict(),
        "per_channel": {n: summarise(relative_l2(prediction[n], v)).mean for n, v in truth.items()},
        "per_time": error_over_time(problem, prediction, judged, held_out.queries.axes),
        "reference": {
            "error_estimate": None if estimate is None else float(estimate[kept].max()),
            "accepted": len(errors) - refused,
            "solved": len(kept),
        },
        "baselines": {name: summarise(value).mean for name, value in trivial.items()},
        "samples": len(errors),
        "warnings": warnings,
    }
