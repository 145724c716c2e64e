"""A run as notebooks show it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from piop.errors import PiopError
from piop.notebook_html import image_html, table_html, text_html
from piop.run.evaluation_result import Evaluation
from piop.run.folder import EVALUATION

if TYPE_CHECKING:
    from piop.run.run import Run

DPI = 80
"""Of the figure that is drawn."""


def run_html(run: Run) -> str:
    """Return what a run is, the table of its errors, and the figure of its fields.

    The figure is that of the run folder, or drawn from what was evaluated in this process; nothing
    is evaluated for it. A part that cannot be read is replaced by the reason.
    """
    title = f"{run.problem.name}: {run.problem.spec.title}".removesuffix(": ")
    parts = [f"<b>{text_html(title)}</b>"]
    for part in (_facts, _errors, _figure):
        try:
            parts.append(part(run))
        except PiopError as error:
            parts.append(f"<p>{text_html(str(error))}</p>")
    return "\n".join(part for part in parts if part)


def _facts(run: Run) -> str:
    config, last = run.config, (run.metrics or [{"step": 0, "seconds": 0.0}])[-1]
    count = sum(p.numel() for p in run.model.operator.parameters())
    preset = config.backbone_settings.get("preset")
    network = f"{config.backbone}{f', preset {preset}' if preset else ''}, {count:,} parameters"
    trained = f"{last['step']:.0f} steps in {last['seconds']:.1f} s"
    rows = [
        ("equations", "; ".join(text.text for text in run.problem.spec.equations)),
        ("network", network),
        ("trained", f"{trained}, interrupted" if run.interrupted else trained),
        *((name, f"{value:.4g}, inferred") for name, value in run.inferred.items()),
        ("run folder", str(run.path)),
    ]
    return table_html([row for row in rows if row[1]])


def _errors(run: Run) -> str:
    if not run.is_evaluated:
        return "<p>Not evaluated yet: run.evaluate()</p>"
    return Evaluation(run.folder.read_json(EVALUATION))._repr_html_()


def _figure(run: Run) -> str:
    if not run.is_evaluated:
        return ""
    alternative = "Reference, prediction and error of held-out inputs"
    if run.judged:
        drawn = io.BytesIO()
        run.plot("fields").savefig(drawn, format="png", dpi=DPI)
        return image_html(drawn.getvalue(), alternative)
    path = _latest_figure(run)
    return "" if path is None else image_html(path.read_bytes(), alternative)


def _latest_figure(run: Run) -> Path | None:
    """Return a figure of fields in the run folder, drawn after the evaluation."""
    evaluated = (run.path / EVALUATION).stat().st_mtime
    found = sorted((run.path / "figures").glob("predictions*.png"))
    return next((path for path in found if path.stat().st_mtime >= evaluated), None)
