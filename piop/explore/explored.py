"""What the page shows: a run with its operator, or a spec alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
import xarray as xr
from torch import Tensor

from piop import __version__
from piop.datasets.lazy_arrays import (
    BOUND_OVER_TIME,
    ERROR_BOUND,
    ESTIMATE,
    IN_DISTRIBUTION,
    P_VALUE,
    SENSOR_ERROR,
)
from piop.errors import NotSupportedError, PiopError, UsageError
from piop.explore.display import Display
from piop.explore.limits import WAVES
from piop.explore.page_inputs import (
    Draw,
    PageInputs,
    coefficients,
    drawn_axes,
    read_inputs,
)
from piop.fields import FunctionSamples, tensor_grid
from piop.metrics import error_over_time, relative_l2
from piop.problem import Coordinate, Input, Problem
from piop.problem.describe import equation_texts, to_json
from piop.problem.inputs import history_of
from piop.run import Run
from piop.run.error_bounds.calibration import CONFIDENCE, INPUTS
from piop.run.prediction import predict_values
from piop.run.references import Reference
from piop.sampling.distributions import input_axes, input_sampler
from piop.sampling.functions import TrigonometricBasis
from piop.spec import distributions as spec
from piop.spec.model import SensorPlacement

Frame = tuple[dict[str, Any], dict[str, Tensor]]
"""Header and arrays of a message."""


@final
@dataclass(frozen=True)
class Explored:
    """A run or a spec, and how it is shown.

    Attributes:
        source: Run folder, file or name, as it was given.
        problem: The problem, its parameters being numbers.
        display: Where solutions are shown.
        draw: Draws its inputs.
        run: The run; None for a spec.
        thorough: The same run with a network of its own, which another thread may use.
        edited: That run again, whose test of inputs serves sensors that are not those of the spec.
    """

    source: str
    problem: Problem
    display: Display
    draw: Draw
    run: Run | None = None
    thorough: Run | None = None
    edited: Run | None = None

    @classmethod
    def open(cls, source: str, device: str | None = None) -> Explored:
        """Open a run folder, or a spec by its file or name.

        Args:
            source: A folder is a run; anything else is a spec.
            device: Of the operator; by default the run's own.

        Raises:
            UsageError: If it is no run.
            SpecError: If it is no spec.
            NotSupportedError: If its inputs cannot be drawn, or its solutions not be shown.
        """
        if not Path(source).is_dir():
            problem = Problem.from_file(source)
            _require_shown(problem)
            return cls(source, problem, Display.of(problem), Draw(problem))
        run = Run.load(source, device)
        _require_shown(run.problem)
        thorough = Run.load(source, device)
        display = Display.of(run.problem, run.model.operator.end_only)
        problem = run.solved
        edited = replace(thorough)
        return cls(source, problem, display, Draw(run.problem), run, thorough, edited)

    def read(self, inputs: Any, sensors: Any) -> PageInputs:
        """Read inputs that the page defines; see :func:`piop.explore.page_inputs.read_inputs`."""
        return read_inputs(self.problem, self.draw, inputs, sensors)

    def describe(self) -> dict[str, Any]:
        """Return all that the page is told at its start."""
        problem, run = self.problem, self.run
        found = to_json(problem)
        supported = problem.capabilities.solver
        return {
            "mode": "spec" if run is None else "run",
            "source": self.source,
            "version": __version__,
            "name": problem.name,
            "title": problem.spec.title,
            "equations": equation_texts(problem),
            "description": problem.describe(),
            "conditions": found["conditions"],
            "units": dict(problem.units),
            "channels": list(problem.channels),
            "inputs": [self._input(item) for item in problem.visible_inputs],
            "hidden": [item.name for item in problem.hidden_inputs],
            "display": self.display.to_json(),
            "solver": found["solver"],
            "unsolved": supported.refusal,
            "confidence": CONFIDENCE,
            "uncalibrated": self._uncalibrated(),
            "backbone": None if run is None else run.config.backbone,
        }

    def _uncalibrated(self) -> str:
        """Say why there is no error bound; empty where there is one."""
        if self.run is None or self.run.calibration is not None:
            return ""
        return f"piop evaluate {self.run.path} --calibrate {INPUTS}"

    def _input(self, item: Input) -> dict[str, Any]:
        axes = input_axes(self.problem, item)
        mean, std = input_sampler(self.problem, item).moments()
        return {
            "name": item.name,
            "unit": self.problem.units.get(item.name),
            "axes": [
                {
                    "name": axis.name,
                    "low": axis.low,
                    "high": axis.high,
                    "periodic": axis.periodic,
                    "values": values.tolist(),
                }
                for axis, values in zip(axes, drawn_axes(axes), strict=True)
            ],
            "mean": mean,
            "std": std,
            "smooth": item.smooth,
            "waves": waves_of(self.problem, item),
            "range": None if axes else _range_of_number(item, mean, std),
            "sensors": {"count": math.prod(item.sensor_shape), "place": item.place.value},
        }

    def at_time(self, inputs: PageInputs, frame: int) -> tuple[Frame, dict[str, FunctionSamples]]:
        """Return the inputs as they are and the operator's answer at one time; and the sensors.

        Raises:
            UsageError: If inputs do not fit.
        """
        functions = inputs.functions()
        observed = inputs.observe(functions)
        header: dict[str, Any] = {"frame": frame, "numbers": {}, "waves": {}}
        arrays: dict[str, Tensor] = {}
        for item in self.problem.visible_inputs:
            axes = drawn_axes(input_axes(self.problem, item))
            function, samples = functions[item.name], observed[item.name]
            if not axes:
                header["numbers"][item.name] = float(samples.values.flatten()[0])
                continue
            arrays[f"input/{item.name}"] = function(tensor_grid(axes)[None])[0].reshape(
                *map(len, axes)
            )
            arrays[f"sensors/{item.name}"] = samples.points[0]
            arrays[f"observed/{item.name}"] = samples.values[0, :, 0]
            own = coefficients(self.problem, item, function)
            if own is not None:
                flat = own.flatten()
                chosen = [w["number"] for w in waves_of(self.problem, item)]
                header["waves"][item.name] = {str(i): float(flat[i]) for i in chosen}
        if self.run is not None:
            queries = self.display.queries(frame)
            values = predict_values(self.run.problem, self.run.model, observed, queries)
            arrays["values"] = self._channels(values, 1)
        return (header, arrays), observed

    def prepare(self) -> None:
        """Test one input, since what is drawn for the first takes seconds and serves all others."""
        with suppress(PiopError):
            given = {item.name: {"kind": "draw", "seed": 0} for item in self.problem.visible_inputs}
            inputs = self.read(given, None)
            if self.run is not None:
                self.trust(inputs, inputs.observe(inputs.functions()))

    def whole(self, observed: Mapping[str, FunctionSamples]) -> Tensor:
        """Return the operator's answer at all times ``[N, C]``, float64."""
        run = self._thorough()
        return predict_values(run.problem, run.model, observed, self.display.queries())[0]

    def movie(self, values: Tensor) -> Tensor:
        """Bring an answer ``[N, C]`` to ``[C, T, *shape]``."""
        return self._channels(values[None], self.display.frames)

    def _channels(self, values: Tensor, frames: int) -> Tensor:
        """Bring values ``[1, N, C]`` to ``[C, frames, *shape]``; without space to ``[C, 1, T]``."""
        shape = self.display.shape if self.problem.space else (values.shape[1],)
        return values[0].reshape(frames, *shape, -1).movedim(-1, 0)

    def trust(self, inputs: PageInputs, observed: Mapping[str, FunctionSamples]) -> dict[str, Any]:
        """Return how far the operator may err, and whether the inputs are of the distribution."""
        run = self.edited if inputs.edited_sensors and self.edited else self._thorough()
        gridded = run.model.operator.gridded or self.display.mesh is not None
        queries = self.display.queries() if gridded else self.display.along_time()
        found = run.predict(observed, queries)
        header: dict[str, Any] = {
            "confidence": CONFIDENCE,
            "bound": _scalar(found, ERROR_BOUND),
            "estimate": _scalar(found, ESTIMATE),
            "sensor_error": _scalar(found, SENSOR_ERROR),
            "p_value": _scalar(found, P_VALUE),
            "in_distribution": None,
            "reason": "",
            "bounds": {
                name: _scalar(found, f"{ERROR_BOUND}_{name}") for name in self.problem.channels
            },
            "bound_over_time": None,
        }
        if IN_DISTRIBUTION in found:
            header["in_distribution"] = bool(found[IN_DISTRIBUTION].values[0])
            with suppress(NotSupportedError):
                header["reason"] = run.typicality(observed).reason[0]
        if BOUND_OVER_TIME in found:
            header["bound_over_time"] = found[BOUND_OVER_TIME].values[0].tolist()
        return header

    def compare(self, reference: Reference, values: Tensor | None) -> Frame:
        """Return a reference, and the error of the operator's answer beside it.

        Args:
            reference: At the positions of the display.
            values: The operator's answer at all times ``[N, C]``; None without an operator.
        """
        channels = self.problem.channels
        truth = torch.stack([reference.values[name].flatten() for name in channels], -1)
        header: dict[str, Any] = {
            "error_estimate": reference.error,
            "tolerance": reference.tolerance,
            "accepted": not reference.missed,
            "error": None,
            "errors": {},
            "error_over_time": None,
        }
        if values is not None:
            judged = [channels.index(name) for name in self.problem.unknowns]
            own, true = values[None], truth[None]
            each = [float(relative_l2(own[..., i], true[..., i])[0]) for i in range(len(channels))]
            header["error"] = sum(each[i] for i in judged) / len(judged)
            header["errors"] = dict(zip(channels, each, strict=True))
            if self.display.moving:  # drawn beside the bound, which has the same units
                steps = [v.unflatten(1, (self.display.frames, -1)) for v in (own, true)]
                by_time = [error_over_time(*(v[..., i] for v in steps))[0] for i in judged]
                header["error_over_time"] = torch.stack(by_time).amax(0).tolist()
        return header, {"values": self.movie(truth)}

    def _thorough(self) -> Run:
        if self.thorough is None:
            raise UsageError(f"{self.source}: is a spec; it has no operator")
        return self.thorough


def _scalar(found: xr.Dataset, name: str) -> float | None:
    return float(found[name].values[0]) if name in found else None


def _require_shown(problem: Problem) -> None:
    """Refuse what the page cannot draw or show.

    Raises:
        NotSupportedError: With the reason.
    """
    reason = ""
    past = history_of(problem)
    undrawn = [i.name for i in problem.inputs if isinstance(i.distribution, spec.FromData)]
    there = [i.name for i in problem.visible_inputs if i.place is SensorPlacement.POINTS]
    if past is not None:
        reason = f"the input {past.name} is a history, which comes with a solution"
    elif undrawn:
        reason = f"the distribution of {', '.join(undrawn)} is data, so it cannot be drawn"
    elif problem.domain.varies:
        reason = "its shape differs from sample to sample"
    elif there:
        reason = f"the input {', '.join(there)} is observed at the points of a solution"
    elif not problem.domain.is_box and problem.points is not None:
        reason = "its solutions are at scattered points (save: {points: ...})"
    if reason:
        raise NotSupportedError(
            f"{problem.name}: piop explore does not show it, because {reason} (docs/limits.md)"
        )


def waves_of(problem: Problem, item: Input) -> list[dict[str, Any]]:
    """Describe the waves of largest variance: number, name, mean and standard deviation."""
    spectrum = input_sampler(problem, item).spectrum()
    if spectrum is None or not item.of:
        return []
    weight = (spectrum.variance * spectrum.mean_square).flatten()
    count = min(WAVES, int((weight > 0).sum()))
    # stable, so that waves of one variance keep their order; then by their own order again
    chosen = sorted(weight.argsort(descending=True, stable=True)[:count].tolist())
    means, deviations = spectrum.mean.flatten(), spectrum.variance.flatten().sqrt()
    shape = spectrum.variance.shape
    found = []
    for number in chosen:
        position = torch.unravel_index(torch.tensor(number), shape)
        columns = zip(input_axes(problem, item), spectrum.bases, position, strict=True)
        names = [_wave_name(basis, int(k), axis, len(item.of) > 1) for axis, basis, k in columns]
        found.append(
            {
                "number": number,
                "name": " × ".join(n for n in names if n != "1") or "constant",
                "mean": float(means[number]),
                "std": float(deviations[number]),
            }
        )
    return found


def _wave_name(basis: TrigonometricBasis, number: int, axis: Coordinate, named: bool) -> str:
    """Name a function of a basis by its periods along the axis, such as ``sin 2`` or ``sin 2x``."""
    periods = float(basis.frequency[number]) * axis.length / (2 * math.pi)
    if periods == 0:
        return "1"
    kind = "cos" if float(basis.phase[number]) == 0 else "sin"
    return f"{kind} {periods:.3g}{axis.name * named}"


def _range_of_number(item: Input, mean: float, std: float) -> dict[str, Any]:
    """Return the ends of a slider of a number."""
    distribution = item.distribution
    extremes = () if distribution is None else distribution.extremes
    low, high = (extremes[0], extremes[-1]) if extremes else (mean - 4 * std, mean + 4 * std)
    return {
        "low": low,
        "high": high,
        "log": isinstance(distribution, spec.LogUniform),
        "whole": isinstance(distribution, spec.Integer),
    }
