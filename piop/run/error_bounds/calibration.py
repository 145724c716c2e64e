"""Calibration of an operator: bounds of the error of one prediction, with a stated confidence."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import torch
from torch import Tensor

from piop.arguments import whole_number
from piop.errors import NotSupportedError, UsageError
from piop.fields import FunctionSamples
from piop.metrics import error_over_time, rank_correlation, relative_l2
from piop.problem import Problem
from piop.run.error_bounds.coarse_choice import coarse_differences
from piop.run.error_bounds.conformal import bounding_score, coverage
from piop.run.error_bounds.indicator import Indicator, Measurement
from piop.run.error_bounds.linearised_error import (
    FirstOrder,
    LinearisedError,
    choose_lattice,
    concatenate,
)
from piop.run.error_bounds.residual_size import ResidualSize
from piop.run.held_out import HeldOut, JudgedSamples
from piop.training.build import Model
from piop.training.config import TrainingConfig

INPUTS = 150
"""Inputs of a calibration, unless their references take too long."""
FEWEST = 20
"""Inputs with which there is a calibration at all."""
PART_OF_REFERENCES = 0.6
"""Part of the time of a calibration that its references may take; what tells errors takes the rest.
"""
PART_OF_RESIDUALS = 0.5
"""Part of the time left after references that residuals may take; coarse solutions take the rest.
"""
SELECTION = 3
"""One input in so many is for choices: of the lattice, of the indicator, whether corrections are
kept. Scores come from the others, since a bound holds where choices do not look at its scores."""
CONFIDENCE = 0.9
"""Confidence of bounds, unless another is asked for."""


@final
class TooFewInputsError(NotSupportedError):
    """Fewer inputs than are needed have a reference; in more time, more may have one."""


def check_inputs(count: int | None, least: int = FEWEST) -> int | None:
    """Return the number of inputs that was asked for; None where none was.

    Args:
        count: The number.
        least: 0 where none at all may be asked for, too.

    Raises:
        UsageError: If it is no whole number, or too small.
    """
    if count is None:
        return None
    found = whole_number("calibrate", count, min(least, FEWEST))
    if 0 < found < FEWEST:
        raise UsageError(
            f"calibrate: {found} inputs are too few to bound an error; at least {FEWEST} are "
            f"needed, {INPUTS} are usual"
        )
    return found


@final
@dataclass(frozen=True)
class Calibration:
    """How large the errors of an operator are beside an indicator of them.

    A score is (relative L2 error + error estimate of the reference) / indicator of one input.

    Attributes:
        indicator: Chosen on inputs of its own.
        scores: Unknown → score of each of N inputs ``[N]`` float64.
        correlation: Rank correlation of indicator and error over these inputs; None where the
            indicator is the same for all.
        selection: Inputs that the indicator was chosen on.
        sensors: Input → number of sensors.
        identity: Seed of the inputs, steps of the training and hash of the problem.
        error: Mean relative L2 error of these inputs, the largest of all unknowns.
        corrected: That of predictions less their linearised error; None where there is none, or
            where it is no better.
        correction: The lattice on which that error is found; empty for none.
        times: T times of the evolution; empty where errors are not known at each time.
        over_time: Scores of the errors at each of them, relative to the size of the whole solution
            ``[N, T]`` float64.
        indicators: Of the inputs with scores ``[N]`` float64; None in calibrations of before.
    """

    indicator: Indicator
    scores: Mapping[str, Tensor]
    correlation: float | None
    selection: int
    sensors: Mapping[str, int]
    identity: Mapping[str, Any]
    error: float
    corrected: Self | None = None
    correction: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    over_time: Tensor | None = None
    indicators: Tensor | None = None

    @classmethod
    def learn(
        cls,
        errors: Mapping[str, Tensor],
        measured: Sequence[Measurement],
        sensors: Mapping[str, int],
        identity: Mapping[str, Any],
        times: tuple[float, ...] = (),
        over_time: Tensor | None = None,
    ) -> Self:
        """Choose the indicator on every third input, and score the others.

        Args:
            errors: Unknown → relative L2 error of each input ``[B]`` float64, not finite for none.
            measured: Of the predictions of the inputs, what may tell their errors; may be empty.
            sensors: Input → number of sensors.
            identity: What is calibrated.
            times: T times.
            over_time: Errors at them, relative to whole solutions ``[B, T]`` float64.
        """
        largest = torch.stack([*errors.values()]).amax(0)
        count = len(largest)
        chosen = selected(count)
        indicator = Indicator.choose([own.take(chosen) for own in measured], largest[chosen])
        sizes = indicator(indicator.sizes_among(measured), count)[~chosen]
        correlation = None
        if not indicator.is_constant and len(sizes) > 1:
            correlation = rank_correlation(sizes, largest[~chosen])
        scores = {name: _nan_as_infinite(e[~chosen] / sizes) for name, e in errors.items()}
        if over_time is not None:
            over_time = _nan_as_infinite(over_time[~chosen] / sizes[:, None])
        return cls(
            indicator,
            scores,
            correlation,
            int(chosen.sum()),
            sensors,
            identity,
            float(largest.mean()),
            times=times,
            over_time=over_time,
            indicators=sizes,
        )

    @property
    def count(self) -> int:
        """N, the number of scores."""
        return len(self.joint)

    @cached_property
    def joint(self) -> Tensor:
        """The largest score of all unknowns of each input ``[N]``."""
        return torch.stack([*self.scores.values()]).amax(0)

    def bounds(self, indicators: Tensor, confidence: float) -> dict[str, Tensor]:
        """Return bounds of the relative L2 errors of inputs ``[B]``.

        Args:
            indicators: Of these inputs ``[B]``.
            confidence: Probability that a bound holds.

        Returns:
            By unknown; under an empty name that of all unknowns together.

        Raises:
            UsageError: If the calibration has too few inputs for the confidence.
        """
        return {
            name: bounding_score(scores, confidence) * indicators
            for name, scores in {"": self.joint, **self.scores}.items()
        }

    def bounds_over_time(self, indicators: Tensor, confidence: float, at: Tensor) -> Tensor | None:
        """Return bounds of the errors at some times ``[B, T]``; None where they are not known.

        Between two times of the calibration the larger of their bounds is given.

        Args:
            indicators: Of these inputs ``[B]``.
            confidence: Probability that the bound at a time of the calibration holds.
            at: T times.

        Raises:
            UsageError: If the calibration has too few inputs for the confidence.
        """
        if self.over_time is None:
            return None
        found = [bounding_score(scores, confidence) for scores in self.over_time.unbind(1)]
        bounds, times = indicators.new_tensor(found), indicators.new_tensor(self.times)
        slack = 1e-9 * (times[-1] - times[0])
        after = torch.searchsorted(times, at - slack).clamp(max=len(times) - 1)
        before = (torch.searchsorted(times, at + slack, right=True) - 1).clamp(min=0)
        return indicators[:, None] * torch.maximum(bounds[before], bounds[after])

    def estimates(self, indicators: Tensor) -> Tensor:
        """Return the error that half of the inputs with these indicators stay below ``[B]``."""
        return self.joint.median() * indicators

    def covers(self, inputs: Mapping[str, FunctionSamples]) -> bool:
        """Whether inputs have as many sensors as those of the calibration, or more."""
        return all(s.fewest_sensors >= self.sensors.get(name, 0) for name, s in inputs.items())

    def summary(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Return what a user is told of it.

        Raises:
            UsageError: If it has too few inputs for the confidence.
        """
        expected, low = coverage(self.count, confidence)
        quantile = bounding_score(self.joint, confidence)
        positive = self.joint.clamp(min=torch.finfo(torch.float64).tiny)
        return {
            "confidence": confidence,
            "inputs": self.count,
            "coverage": expected,
            "coverage_low": low,
            "bound_over_error": float((quantile / positive).log().mean().exp()),
            "indicator": self.indicator.to_json()["kind"],
            "correlation": self.correlation,
            "error": self.error,
            "corrected_error": None if self.corrected is None else self.corrected.error,
        }

    def summary_or_reason(self) -> dict[str, Any]:
        """Return the summary, or the ``reason`` why there is none at the usual confidence."""
        try:
            return self.summary()
        except UsageError as error:
            return {"reason": str(error)}

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``calibration.json``."""
        return {
            **self.identity,
            "score": "(relative L2 error + error estimate of the reference) / indicator",
            "indicator": self.indicator.to_json(),
            "selection": self.selection,
            "correlation": self.correlation,
            "sensors": dict(self.sensors),
            "scores": {name: scores.tolist() for name, scores in self.scores.items()},
            "error": self.error,
            "corrected": None if self.corrected is None else self.corrected.to_json(),
            "correction": list(self.correction),
            "times": list(self.times),
            "over_time": None if self.over_time is None else self.over_time.tolist(),
            "indicators": None if self.indicators is None else self.indicators.tolist(),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned.

        Raises:
            KeyError, TypeError, ValueError: If it is something else.
        """
        own, over_time, sizes = found["scores"], found["over_time"], found.get("indicators")
        return cls(
            Indicator.from_json(found["indicator"]),
            {name: _none_as_infinite(scores) for name, scores in own.items()},
            found["correlation"],
            found["selection"],
            found["sensors"],
            {name: found[name] for name in IDENTITY},
            float(_none_as_infinite([found["error"]])),
            cls.from_json(found["corrected"]) if found["corrected"] else None,
            tuple(found["correction"]),
            tuple(found["times"]),
            None if over_time is None else torch.stack([*map(_none_as_infinite, over_time)]),
            None if sizes is None else _none_as_infinite(sizes),
        )


def calibrate_model(
    problem: Problem,
    model: Model,
    config: TrainingConfig,
    judged: JudgedSamples,
    identity: Mapping[str, Any],
    seconds: float = math.inf,
) -> Calibration:
    """Compare predictions, and predictions less their linearised error, with references.

    What may tell the error of a prediction is its residual, and where that does not tell it well,
    its difference from a coarse solution.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        config: The run's choices.
        judged: Inputs that were never trained on, with predictions and solutions of which no
            unknown is zero.
        identity: What is calibrated.
        seconds: Time that all of this may take; inputs that do not fit are left out, but for
            :data:`FEWEST`.
    """
    begun = time.monotonic()
    lattice = _lattice_for(problem, model, config, judged)
    linearised = LinearisedError(problem, model, lattice) if lattice else None
    residuals: list[Measurement] = []
    first_order = None
    with suppress(NotSupportedError):
        size = ResidualSize(problem, model, config, lattice)
        rest = PART_OF_RESIDUALS * (seconds - (time.monotonic() - begun))
        sizes, first_order = _measure_in_time(judged.held_out, size, linearised, rest)
        judged = judged.take(torch.arange(len(sizes)))
        residuals = [Measurement(sizes, lattice)]
    held_out, prediction = judged.held_out, judged.prediction
    inputs, times = held_out.inputs, times_of(problem, held_out)
    sensors = {name: samples.fewest_sensors for name, samples in inputs.items()}
    errors = errors_and_estimates(problem, held_out, prediction)
    choices = selected(len(held_out.accepted)).nonzero()[:, 0]
    rest = seconds - (time.monotonic() - begun)
    few, largest = held_out.take(choices).inputs, torch.stack([*errors.values()]).amax(0)
    known = [own.take(choices) for own in residuals]
    differences = coarse_differences(problem, model, few, largest[choices], known, inputs, rest)

    def learn(
        errors: Mapping[str, Tensor], values: Mapping[str, Tensor], measured: Sequence[Measurement]
    ) -> Calibration:
        over_time = errors_over_time(problem, held_out, values) if times else None
        return Calibration.learn(errors, measured, sensors, identity, times, over_time)

    found = learn(errors, prediction, [*residuals, *differences])
    if linearised is None or first_order is None:
        return found
    less = linearised.interpolate(first_order.errors, held_out.queries)
    corrected = {
        name: prediction[name] - less[..., channel].reshape(prediction[name].shape)
        for channel, name in enumerate(problem.channels)
    }
    remaining = errors_and_estimates(problem, held_out, corrected)
    if not mean_of_selection(remaining) < mean_of_selection(errors):
        return found
    return replace(found, corrected=learn(remaining, corrected, residuals), correction=lattice)


def _lattice_for(
    problem: Problem, model: Model, config: TrainingConfig, judged: JudgedSamples
) -> tuple[int, ...]:
    """Choose the lattice of linearised equations by the inputs that choices are made on."""
    errors = errors_and_estimates(problem, judged.held_out, judged.prediction)
    choices = selected(len(judged.held_out.accepted)).nonzero()[:, 0]
    typical = mean_of_selection(errors)
    return choose_lattice(problem, model, config, typical, judged.held_out.take(choices))


def _measure_in_time(
    held_out: HeldOut, size: ResidualSize, linearised: LinearisedError | None, seconds: float
) -> tuple[Tensor, FirstOrder | None]:
    """Measure the residuals of the first inputs, at least :data:`FEWEST`, and as many as fit.

    Args:
        held_out: The inputs.
        size: Measures residuals.
        linearised: Finds errors to first order, from which it measures them.
        seconds: The time.

    Returns:
        The residuals of the first B' ``[B', E]``, and their errors to first order.
    """
    begun = time.monotonic()
    count = len(held_out.accepted)

    def measure(first: int, end: int) -> tuple[Tensor, FirstOrder | None]:
        inputs = held_out.inputs.items()
        own = {name: s.repeat(count).take(slice(first, end)) for name, s in inputs}
        errors = linearised(own) if linearised else None
        return size(own, errors), errors

    if seconds == math.inf or count <= FEWEST:
        return measure(0, count)
    parts = [measure(0, FEWEST)]
    fitting = int(FEWEST * seconds / (time.monotonic() - begun))
    if fitting > FEWEST:
        parts.append(measure(FEWEST, min(fitting, count)))
    known = [errors for _, errors in parts if errors is not None]
    return torch.cat([sizes for sizes, _ in parts]), concatenate(known) if known else None


IDENTITY = ("seed", "steps", "hash")
"""What tells whether a calibration is of the weights and the problem as they are."""


def errors_and_estimates(
    problem: Problem, held_out: HeldOut, prediction: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the errors of predictions and of their references together, by unknown ``[B]``."""
    judged = [name for name in problem.unknowns if name in held_out.truth]
    errors = {n: _nan_as_infinite(relative_l2(prediction[n], held_out.truth[n])) for n in judged}
    if held_out.error_estimate is None:
        return errors
    return {n: e + _nan_as_infinite(held_out.error_estimate) for n, e in errors.items()}


def selected(count: int) -> Tensor:
    """Mark the inputs that choices are made on, and no scores come from ``[B]``."""
    return torch.arange(count) % SELECTION == 0


def mean_of_selection(errors: Mapping[str, Tensor]) -> float:
    """Return the mean error of the inputs that choices are made on, the largest of all unknowns."""
    largest = torch.stack([*errors.values()]).amax(0)
    return float(largest[selected(len(largest))].mean())


def times_of(problem: Problem, held_out: HeldOut) -> tuple[float, ...]:
    """Return the times of solutions on a grid; none for those at points."""
    axes = held_out.queries.axes
    if problem.time is None or axes is None:
        return ()
    return tuple(axes[problem.time.name].tolist())


def errors_over_time(
    problem: Problem, held_out: HeldOut, prediction: Mapping[str, Tensor]
) -> Tensor:
    """Return the errors at each time, relative to the size of the whole solution ``[B, T]``.

    They are those of the unknown that has the largest, with the error estimates of the references.
    """
    found = []
    for name in problem.unknowns:
        if name in held_out.truth:
            both = (prediction[name], held_out.truth[name])
            found.append(_nan_as_infinite(error_over_time(*(v.double().cpu() for v in both))))
    largest = torch.stack(found).amax(0)
    if held_out.error_estimate is None:
        return largest
    return largest + _nan_as_infinite(held_out.error_estimate)[:, None]


def _none_as_infinite(values: Sequence[float | None]) -> Tensor:
    """Read what JSON has no number for."""
    return torch.tensor([math.inf if v is None else v for v in values], dtype=torch.float64)


def _nan_as_infinite(values: Tensor) -> Tensor:
    """Count what is not a number as infinite."""
    return values.double().cpu().nan_to_num(nan=torch.inf, posinf=torch.inf)
