"""Lines of ``piop predict`` that say how far predictions can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piop.sampling.typicality import Typicality

MOST_LINES = 10
"""Samples that are named one by one."""


def typicality_text(found: Typicality) -> str:
    """Say which inputs are outside the distribution on which an operator was trained."""
    p_values = found.p_value.tolist()
    outside = [i for i, good in enumerate(found.inside.tolist()) if not good]
    if not outside:
        return f"Inputs: in the distribution of the spec (p-value at least {min(p_values):.2g})"
    lines = [
        f"Inputs: {len(outside)} of {len(p_values)} outside the distribution of the spec, on which "
        "the operator was trained: do not trust these predictions",
        *(
            f"  sample {i}: p-value {p_values[i]:.2g}, {found.reason[i]}"
            for i in outside[:MOST_LINES]
        ),
    ]
    if (more := len(outside) - MOST_LINES) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)


def bounds_text(arrays: Mapping[str, Any], confidence: float) -> str:
    """Say how large the errors of predictions are.

    Args:
        arrays: What :meth:`piop.run.Run.predict` tells of each sample, by name.
        confidence: Of the bounds.
    """
    import numpy as np

    from piop.datasets.lazy_arrays import ERROR_BOUND, ESTIMATE, SENSOR_ERROR

    known = ERROR_BOUND in arrays and bool(np.isfinite(arrays[ERROR_BOUND].values).any())
    if SENSOR_ERROR in arrays and not known:
        share = max(arrays[SENSOR_ERROR].values)
        return (
            "Error bounds: none for fewer sensors than those of the spec, which alone cause a "
            f"relative L2 error of about {share:.2g}"
        )
    if ERROR_BOUND not in arrays:
        return "Error bounds: none, the run is not calibrated: piop evaluate RUN --calibrate N"
    estimates, bounds = arrays[ESTIMATE].values, arrays[ERROR_BOUND].values
    covered = [i for i, bound in enumerate(bounds) if math.isfinite(bound)]
    head = f"Relative L2 error, bound with a confidence of {100 * confidence:g} %:"
    if len(bounds) > MOST_LINES:
        missing = len(bounds) - len(covered)
        end = f"; {missing} of {len(bounds)} are not covered" if missing else ""
        if not covered:
            return f"{head} no sample is covered"
        values = sorted(bounds[covered])
        middle = values[len(values) // 2]
        return f"{head} median {middle:.2g}, largest {values[-1]:.2g}{end}"
    rows = [
        f"  sample {i}: about {estimates[i]:.2g}, at most {bounds[i]:.2g}"
        if i in covered
        else f"  sample {i}: not covered"
        for i in range(len(bounds))
    ]
    return "\n".join([head, *rows])


SOURCES = (
    "tolerance",
    "operator_answers",
    "solver_answers",
    "unsolved_answers",
    "solver_seconds",
    "unsolved_because",
)
"""Attributes of a prediction to a tolerance."""


def sources_text(attributes: Mapping[str, Any], confidence: float) -> str:
    """Say how many answers are the operator's, and how many the solver's.

    Args:
        attributes: Of the prediction.
        confidence: Of the bounds.
    """
    operator, solver, neither = (
        attributes[f"{name}_answers"] for name in ("operator", "solver", "unsolved")
    )
    total, seconds = operator + solver + neither, attributes["solver_seconds"]
    text = (
        f"Tolerance {attributes['tolerance']:g}, confidence {100 * confidence:g} %: {operator} of "
        f"{total} answers by the operator"
    )
    if solver:
        whole = f"all {total} would take about {seconds / (solver + neither) * total:.2g} s"
        text += f", {solver} by the reference solver in {seconds:.2g} s ({whole})"
    if neither:
        reason = attributes["unsolved_because"] or "the solver did not reach the tolerance"
        text += f", {neither} beyond it, for the solver has no answer: {reason}"
    return text
