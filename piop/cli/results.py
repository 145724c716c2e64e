"""The table of errors that ends a solve, a resume and an evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from piop.cli.console import print_json, say

if TYPE_CHECKING:
    from piop.run import Run


def show_results(run: Run, as_json: bool) -> None:
    """Print what ``evaluation.json`` says, then draw the figures into the run folder."""
    evaluation = json.loads((run.path / "evaluation.json").read_text())
    if as_json:
        print_json({"run": str(run.path), **evaluation})
    else:
        print(error_table(evaluation))
        print(f"Run folder: {run.path}", flush=True)
    from piop.report import draw_run

    figures = draw_run(run)
    say(f"Figures: {len(figures)} in {run.path / 'figures'}")


def error_table(evaluation: Mapping[str, Any]) -> str:
    """Format an evaluation for people.

    Args:
        evaluation: What ``evaluation.json`` holds.
    """
    lines = []
    error = evaluation.get("relative_l2")
    if error is not None:
        count = evaluation["samples"]
        lines.append(f"Relative L2 error on {count} held-out input{'s' if count > 1 else ''}")
        rows = [("operator", f"{error['mean']:.4g} ± {error['std']:.2g}")]
        rows += [(f"  {name}", f"{v:.4g}") for name, v in _channels(evaluation).items()]
        rows += [(name, f"{v:.4g}") for name, v in evaluation.get("baselines", {}).items()]
        known = (evaluation.get("reference") or {}).get("error_estimate")
        if known is not None:
            rows.append(("reference itself, at most", f"{known:.1e}"))
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:<{width}}  {value}" for name, value in rows]
    residual = evaluation.get("residual") or {}
    if residual:
        sizes = ", ".join(f"{name} {size:.3g}" for name, size in residual.items())
        lines.append(f"Residual (root mean square): {sizes}")
    steps, seconds = evaluation.get("steps", 0), evaluation.get("seconds", 0.0)
    first = evaluation.get("first_step_seconds") or 0.0
    lines.append(f"Trained {steps} steps in {seconds:.1f} s (first step {first:.1f} s more)")
    lines += [f"Warning: {text}" for text in evaluation.get("warnings", [])]
    return "\n".join(lines)


def _channels(evaluation: Mapping[str, Any]) -> Mapping[str, float]:
    channels = evaluation.get("per_channel") or {}
    return channels if len(channels) > 1 else {}
