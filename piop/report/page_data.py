"""What the plots of the report are drawn from, as the page's script reads it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from piop.errors import UsageError
from piop.fields import FunctionSamples, tensor_grid
from piop.inferred_parameters import INFERRED
from piop.report.comparison import Comparison
from piop.report.layouts import Cloud
from piop.report.line_figures import is_loss
from piop.report.style import label
from piop.run.error_bounds.calibration import CONFIDENCE, Calibration
from piop.run.error_bounds.conformal import bounding_score
from piop.sampling.typicality import grid_axes
from piop.training.loss.weighting.base import WEIGHT
from piop.web import pack

MOST_VALUES = 1_000_000
"""Numbers of all fields together, so that the page stays below 5 MB."""
MOST_ROWS = 400
"""Rows of the metrics that are drawn."""
MOST_SENSORS = 1500
"""Sensors of an input that are drawn."""
MOST_POINTS = 6000
"""Points of a cloud that are drawn."""
CURVE = 200
"""Points of the curve of an input function of one coordinate."""
DECADES = 5
"""Decades of residuals below the largest that are drawn."""


def comparison_data(
    shown: Comparison, units: Mapping[str, str], of: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return fields, inputs, residuals and errors of held-out inputs.

    Args:
        shown: Held-out inputs beside their predictions.
        units: Labels by name.
        of: Input → the coordinates that it depends on.
    """
    samples = shown.samples
    rows = [
        {"name": name, "number": int(samples.numbers[p]), "error": float(samples.error[p])}
        for name, p in zip(shown.names, shown.places, strict=True)
    ]
    return {
        "rows": rows,
        "fields": _fields(shown, units),
        "inputs": _inputs(shown, units, of),
        "residual": _residual(shown, units),
        "overTime": _over_time(shown, units),
        "overSpace": _over_space(shown, units),
        "samples": {
            "numbers": samples.numbers.tolist(),
            "error": pack(samples.error, exact=True),
            "largest": pack(samples.largest, exact=True),
            "bound": None if samples.bound is None else pack(samples.bound, exact=True),
            "distance": None if samples.distance is None else pack(samples.distance, exact=True),
        },
    }


def _axes(axes: Mapping[str, np.ndarray], units: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": n, "unit": units.get(n, ""), "label": label(n, units), "values": _short(ticks)}
        for n, ticks in axes.items()
    ]


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{v:.7g}") for v in values.tolist()]


def thinned(shape: Sequence[int], most: int) -> list[int]:
    """Return strides that leave at most so many points of a grid, by turns of the longest axis.

    Example:
        >>> thinned((101, 256), 10_000)
        [1, 4]
    """
    strides = [1] * len(shape)

    def counts() -> list[int]:
        return [math.ceil(n / k) for n, k in zip(shape, strides, strict=True)]

    while math.prod(counts()) > most:
        longest = max(range(len(shape)), key=counts().__getitem__)
        strides[longest] *= 2
    return strides


def _fields(shown: Comparison, units: Mapping[str, str]) -> dict[str, Any]:
    """Return references and errors; predictions are their sum."""
    view, names = shown.view, list(shown.reference)
    budget = MOST_VALUES // (2 * len(names) * len(shown.names))
    unknowns = [{"name": name, "label": label(name, units)} for name in names]
    if isinstance(view, Cloud):
        own, picks = _clouds(view), [_pick(len(p)) for p in view.points]

        def cut(values: np.ndarray) -> dict[str, Any]:
            return pack(np.stack([row[pick] for row, pick in zip(values, picks, strict=True)]))

    else:
        strides = thinned([len(a) for a in view.axes.values()], budget)
        cuts = tuple(slice(None, None, k) for k in strides)
        axes = {n: a[c] for (n, a), c in zip(view.axes.items(), cuts, strict=True)}
        own = {"kind": "grid", "axes": _axes(axes, units), "time": view.time}

        def cut(values: np.ndarray) -> dict[str, Any]:
            return pack(values[(slice(None), *cuts)])

    return own | {
        "unknowns": unknowns,
        "reference": {name: cut(shown.reference[name]) for name in names},
        "error": {name: cut(shown.prediction[name] - shown.reference[name]) for name in names},
    }


def _pick(count: int) -> np.ndarray:
    """Choose the points of a cloud that are drawn, evenly."""
    return np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)


def _clouds(view: Cloud) -> dict[str, Any]:
    clouds = []
    for points, triangles in zip(view.points, view.triangles, strict=True):
        pick = _pick(len(points))
        whole = len(pick) == len(points)
        corners = triangles.tolist() if whole else []
        clouds.append({"points": pack(points[pick]), "triangles": corners})
    return {"kind": "cloud", "labels": [label(n, view.units) for n in view.names], "clouds": clouds}


def _inputs(
    shown: Comparison, units: Mapping[str, str], of: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return what the operator observes, and the curves of functions of one coordinate."""
    found = []
    for name, samples in shown.inputs.items():
        dimension = samples.points.shape[-1]
        if dimension > 2 or samples.values.shape[-1] != 1:
            continue  # the past of a solution
        each = samples.repeat(len(shown.names))
        rows = [_sensors(each, row) for row in range(len(shown.names))]
        function = shown.functions.get(name)
        if dimension == 1 and function is not None:
            low, high = float(each.points.min()), float(each.points.max())
            at = torch.linspace(low, high, CURVE, dtype=torch.float64)
            curves = function(at[None, :, None]).double()
            for row, curve in zip(rows, curves.expand(len(rows), -1), strict=True):
                row["curve"] = {"x": _short(at.numpy()), "y": _short(curve.numpy())}
        axes = [label(axis, units) for axis in of.get(name, ())]
        own = {"name": name, "label": label(name, units), "dimension": dimension}
        found.append(own | {"of": axes, "rows": rows})
    return found


def _sensors(samples: FunctionSamples, row: int) -> dict[str, Any]:
    points, values = samples.points[row].double(), samples.values[row, :, 0].double()
    if samples.mask is not None:
        points, values = points[samples.mask[row]], values[samples.mask[row]]
    found: dict[str, Any] = {"count": len(values)}
    if points.shape[1] == 2 and (axes := grid_axes(points)) is not None:
        strides = thinned([len(axis) for axis in axes], MOST_SENSORS)
        cuts = [slice(None, None, k) for k in strides]
        values = values.reshape([len(axis) for axis in axes])[cuts[0], cuts[1]].flatten()
        axes = [axis[cut] for axis, cut in zip(axes, cuts, strict=True)]
        points = tensor_grid(axes)
        x, y = (_short(axis.numpy()) for axis in axes)
        found["grid"] = {"x": x, "y": y}
    else:
        order = points[:, 0].argsort() if points.shape[1] == 1 else torch.arange(len(values))
        picks = torch.linspace(0, len(order) - 1, min(len(order), MOST_SENSORS)).round().long()
        points, values = points[order[picks]], values[order[picks]]
    packed = {"points": points, "values": values}
    return found | {name: pack(_numpy(v), exact=True) for name, v in packed.items()}


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def _residual(shown: Comparison, units: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the decimal logarithms of the size of residuals."""
    view = shown.residual_view or shown.view
    if not shown.residuals:
        return None
    if isinstance(view, Cloud):
        own, place, pick = _clouds(view), "", _pick(len(view.points[0]))
    else:
        keep = view.image_axes() or tuple(view.axes)
        axes = {name: ticks for name, ticks in view.axes.items() if name in keep}
        own, place = {"kind": "grid", "axes": _axes(axes, units)}, view.place()
        pick = slice(None)
    equations = []
    for name, values in shown.residuals.items():
        size = np.abs(values[:, pick])
        least = (float(size.max()) or 1.0) * 10.0**-DECADES
        equations.append({"name": name, "values": pack(np.log10(np.maximum(size, least)))})
    return own | {"place": place, "equations": equations}


def _over_time(shown: Comparison, units: Mapping[str, str]) -> dict[str, Any] | None:
    if shown.errors is None or shown.times is None:
        return None
    time = shown.view.time or "t"
    errors = np.where(np.isfinite(shown.errors), shown.errors, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of times at which no error is defined
        low, middle, high = np.nanquantile(errors, [0.1, 0.5, 0.9], axis=0)
        mean = np.nanmean(errors, 0)
    stays = [{"name": n, "y": pack(y, exact=True)} for n, y in shown.baselines.items()]
    return {
        "label": label(time, units),
        "t": _short(shown.times),
        "low": pack(low, exact=True),
        "median": pack(middle, exact=True),
        "mean": pack(mean, exact=True),
        "high": pack(high, exact=True),
        "rows": pack(shown.errors[list(shown.places)], exact=True),
        "baselines": stays,
    }


def _over_space(shown: Comparison, units: Mapping[str, str]) -> dict[str, Any] | None:
    view = shown.space_view
    if view is None or not shown.space_errors:
        return None
    if isinstance(view, Cloud):
        first = Cloud(view.names, view.points[:1], view.triangles[:1], view.units)
        own, pick = _clouds(first), _pick(len(view.points[0]))
        errors = {name: values[pick] for name, values in shown.space_errors.items()}
        place = ""
    else:
        keep = view.image_axes() or tuple(view.axes)
        kept = {name: ticks for name, ticks in view.axes.items() if name in keep}
        own = {"kind": "grid", "axes": _axes(kept, units), "time": None}
        drawn = {name: view.slice(values) for name, values in shown.space_errors.items()}
        strides = thinned(next(iter(drawn.values())).shape, MOST_VALUES // 20)
        cuts = tuple(slice(None, None, k) for k in strides)
        for axis, k in zip(own["axes"], strides, strict=True):
            axis["values"] = axis["values"][::k]
        errors = {name: values[cuts] for name, values in drawn.items()}
        place = view.place()
    return own | {"place": place, "errors": {name: pack(v) for name, v in errors.items()}}


def calibration_pairs(calibrated: Calibration | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Return bound and error of each input that a calibration learned from ``[N]`` each.

    None without a calibration, or where it has too few inputs for the usual confidence.
    """
    if calibrated is None or calibrated.indicators is None:
        return None
    try:
        factor = bounding_score(calibrated.joint, CONFIDENCE)
    except UsageError:
        return None
    error = calibrated.joint * calibrated.indicators
    return (factor * calibrated.indicators).numpy(), error.numpy()


def calibration_data(calibrated: Calibration | None) -> dict[str, Any] | None:
    """Return the pairs of :func:`calibration_pairs` for the page."""
    if (pairs := calibration_pairs(calibrated)) is None:
        return None
    return {"bound": pack(pairs[0], exact=True), "error": pack(pairs[1], exact=True)}


def training_data(
    rows: Sequence[Mapping[str, float]], weights: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return losses, step size and inferred parameters over the steps.

    Args:
        rows: Rows of ``metrics.jsonl``.
        weights: Fixed weights of the terms of the loss.
    """
    if not rows:
        return None
    picks = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).round().astype(int)
    few = [rows[i] for i in picks]
    names = list(dict.fromkeys(key for row in rows for key in row))
    losses = sorted(filter(is_loss, names), key=lambda name: name != "loss")

    def column(name: str, prefix: str = "", factor: float = 1.0) -> dict[str, Any]:
        pairs = [(row["step"], factor * row[name]) for row in few if row.get(name) is not None]
        steps, values = np.array(pairs, dtype=float).reshape(-1, 2).T
        return {"name": name.removeprefix(prefix), "x": pack(steps, exact=True),
                "y": pack(values, exact=True)}  # fmt: skip

    adaptive = {name.removeprefix(WEIGHT): name for name in names if name.startswith(WEIGHT)}
    return {
        "losses": [
            column(n) | {"weight": None if n in adaptive else weights.get(n)} for n in losses
        ],
        "rate": column("learning_rate"),
        "weights": [column(n, WEIGHT, weights.get(part, 1.0)) for part, n in adaptive.items()],
        "inferred": [column(n, INFERRED) for n in names if n.startswith(INFERRED)],
    }
