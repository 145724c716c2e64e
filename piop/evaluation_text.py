"""The content of ``evaluation.json`` in words, for tables on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piop.inferred_parameters import estimate_text
from piop.json_values import number_text

PRECISIONS = {
    "float64": "float64",
    "float32": "float32",
    "tf32": "tf32 in the matrix products of training, float32 elsewhere",
    "bf16": "bf16 in the matrix products of the data's part, float32 elsewhere",
}


def error_title(evaluation: Mapping[str, Any]) -> str:
    """Say what the errors are of."""
    count, data = evaluation["samples"], evaluation.get("data")
    of = "" if data is None else f" of {data}"
    return f"Relative L2 error on {count} held-out input{'s' if count > 1 else ''}{of}"


def error_rows(evaluation: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the table of errors: whose error, and how large; none without errors.

    Rows that begin with two spaces are parts of the one above.
    """
    error = evaluation.get("relative_l2")
    if error is None:
        return []
    rows = [("operator", f"{error['mean']:.4g} ± {error['std']:.2g}")]
    if len(channels := evaluation.get("per_channel") or {}) > 1:
        rows += [(f"  {name}", number_text(v, ".4g")) for name, v in channels.items()]
    for level, e in (evaluation.get("noise") or {}).items():
        name = f"  noise of {100 * float(level):g} %"
        shown = "not finite" if e is None else f"{e['mean']:.4g} ± {e['std']:.2g}"
        rows.append((name, shown))
    rows += [(name, number_text(v, ".4g")) for name, v in evaluation.get("baselines", {}).items()]
    known = (evaluation.get("reference") or {}).get("error_estimate")
    if known is not None:
        rows.append(("reference itself, at most", f"{known:.1e}"))
    return rows


def other_lines(evaluation: Mapping[str, Any]) -> list[str]:
    """Return what else an evaluation says, warnings last."""
    lines = _inferred_lines(evaluation)
    if residual := evaluation.get("residual"):
        sizes = ", ".join(f"{name} {number_text(size, '.3g')}" for name, size in residual.items())
        lines.append(f"Residual (root mean square): {sizes}")
    if worth := evaluation.get("worth"):
        lines.append(_worth_text(worth))
    steps, seconds = evaluation.get("steps", 0), evaluation.get("seconds", 0.0)
    first = evaluation.get("first_step_seconds") or 0.0
    begun = f"first step and compiling {first:.1f} s more"
    lines.append(f"Trained {steps} steps in {seconds:.1f} s ({begun})")
    if precision := evaluation.get("precision"):
        lines.append(f"Precision: {PRECISIONS[precision['training']]}")
    return lines + [f"Warning: {text}" for text in evaluation.get("warnings", [])]


def _worth_text(found: Mapping[str, Any]) -> str:
    """Say after how many answers training has paid."""
    operator, solver = found["operator_seconds"], found["solver_seconds"]
    if found["answers"] is None:
        end = f"never pays: the solver is {operator / solver:.3g} times as fast at this accuracy"
    else:
        times = f"{solver / operator:.3g} times as fast as the solver at this accuracy"
        end = f"has paid after {found['answers']} answers: an answer is {times}"
    return f"Training {end} ({found['samples']} together, error {found['tolerance']:.2g})"


def _inferred_lines(evaluation: Mapping[str, Any]) -> list[str]:
    """List the inferred parameters with their uncertainty, and the noise of the data."""
    found = evaluation.get("inferred") or {}
    lines = []
    for name, estimate in found.items():
        line = f"Inferred {name} = {estimate_text(estimate)}"
        if estimate["interval"] is not None:
            low, high = estimate["interval"]
            low, high = (number_text(end, ".6g") for end in (low, high))
            trained = number_text(estimate["trained"], ".4g")
            line += f" (95 %: {low} to {high}; training alone {trained})"
        lines.append(line)
    if noise := (evaluation.get("inference") or {}).get("noise"):
        sizes = ", ".join(
            f"{100 * n['relative']:.2g} % of {c}"
            for c, n in noise.items()
            if n["relative"] is not None
        )
        count = evaluation["inference"]["samples"]
        lines.append(f"Noise of the data: {sizes} ({count} sample{'s' if count > 1 else ''})")
    return lines
