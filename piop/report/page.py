"""``report.html``: one file that says whether a run is right, and shows where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import piop.report
from piop.datasets import replacing
from piop.errors import DamagedFileError
from piop.problem.classify import classify
from piop.report.answer import Findings, answer, seconds, short
from piop.report.comparison import Comparison, labels_of_units
from piop.report.markup import Html, element, figure, joined, panels, section
from piop.report.page_data import calibration_data, comparison_data, training_data
from piop.report.problem_section import problem_section
from piop.report.settings_section import settings_section
from piop.run.error_bounds.calibration import Calibration
from piop.run.folder import EVALUATION, REPORT
from piop.web import plots, script_json, style

if TYPE_CHECKING:
    from piop.run import Run

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing."""


def write_report(run: Run, shown: Comparison | None, path: Path | None = None) -> Path:
    """Write the report of a run.

    The file appears whole or not at all.

    Args:
        run: The run.
        shown: Held-out inputs beside their predictions; None where there is no reference.
        path: The file; by default ``report.html`` in the run folder.

    Returns:
        The path.

    Raises:
        PiopError: It cannot be written.
    """
    path = run.path / REPORT if path is None else path
    content = report_page(run, shown)
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return path


def report_page(run: Run, shown: Comparison | None) -> str:
    """Return the report of a run as HTML, without anything that is loaded from elsewhere."""
    problem, record = run.problem, run.folder.read_config()
    evaluation = run.folder.read_json(EVALUATION) if run.is_evaluated else {}
    calibrated: Calibration | None = None
    with suppress(DamagedFileError):
        calibrated = run.calibration
    learned = None if calibrated is None else calibrated.summary_or_reason()
    solver = problem.capabilities.method
    by = "" if solver is None else f"Solver: {solver.name}."
    samples = None if shown is None else shown.samples
    several = bool(problem.inputs)
    found = Findings(str(run.path), evaluation, learned, samples, by, several)
    data = _data(run, shown, calibrated)
    parts = {
        "answer": ("Is it right?", answer(found)),
        "inputs": ("Solutions", _inputs(data, shown, evaluation)),
        "errors": ("Errors", _errors(data, shown)),
        "training": ("Training", _training(run, data, evaluation)),
        "problem": ("Problem", problem_section(problem, run.config)),
        "settings": (
            "Settings",
            settings_section(problem, run.config, record, problem.to_yaml()),
        ),
    }
    kept = {name: (title, body) for name, (title, body) in parts.items() if body}
    links = [Html(f'<a href="#{name}">{escape(title)}</a>') for name, (title, _) in kept.items()]
    navigation = element("nav", element("div", *links, css="wide"))
    body = [section(name, *content) for name, content in kept.items()]
    title = escape(f"{problem.name}: report of {run.path.name}")
    script = files(piop.report).joinpath("report.js").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{title}</title>
<style>
{style()}</style>
</head>
<body>
{navigation}
<main>
<noscript><p class="warnings">Plots need JavaScript; all numbers are in the text.</p></noscript>
{_head(run, evaluation)}
{joined(body)}
</main>
<script type="application/json" id="data">{script_json(data)}</script>
<script>
{plots()}</script>
<script>
{script}</script>
</body>
</html>
"""


def _data(run: Run, shown: Comparison | None, calibrated: Calibration | None) -> dict[str, Any]:
    of = {item.name: item.of for item in run.problem.inputs}
    compared = {} if shown is None else comparison_data(shown, labels_of_units(run), of)
    return compared | {
        "calibration": calibration_data(calibrated),
        "training": training_data(run.metrics, run.config.loss.weights),
        "discretisation": run.study or None,
    }


def _head(run: Run, evaluation: Mapping[str, Any]) -> Html:
    """What was trained, in a line."""
    spec, last = run.problem.spec, (run.metrics or [{"step": 0, "seconds": 0.0}])[-1]
    how = "on its equations" if run.config.physics else "on data alone"
    if run.config.physics and run.data is not None:
        how = "on its equations and data"
    count = sum(p.numel() for p in run.model.operator.parameters())
    line = (
        f"{classify(run.problem)}. Network {run.config.backbone} with {count:,} parameters, "
        f"trained {how} for {last['step']:,.0f} steps in {seconds(last['seconds'])}."
    )
    ended = " Training was interrupted." if evaluation.get("interrupted") else ""
    name = spec.title or run.problem.name
    return joined([element("h1", name), element("p", line + ended, css="soft")])


def _inputs(
    data: Mapping[str, Any], shown: Comparison | None, evaluation: Mapping[str, Any]
) -> Html:
    """Prediction, reference and error of a few inputs."""
    if shown is None or not data.get("fields"):
        return Html("")
    of = ""
    if "data" in evaluation:
        of = " The errors at the top are those of the file that is named there."
    if not shown.inputs:
        text = "The solution of the reference and that of the network, which has not seen it."
    elif len(shown.names) == 1:
        text = f"The held-out input; the operator observes it at its sensors (dots) alone.{of}"
    else:
        text = (
            f"Three held-out inputs, by relative L2 error: {', '.join(shown.names)}. The operator "
            f"observes an input at its sensors (dots) alone, and has not seen the reference.{of}"
        ).replace("Three", "Two" if len(shown.names) == 2 else "Three")
    return joined(
        [
            element("p", text, css="soft"),
            Html('<div class="controls" id="controls"></div><p id="shown" class="soft"></p>'),
            Html('<div class="panels" id="fields"></div>'),
        ]
    )


def _errors(data: Mapping[str, Any], shown: Comparison | None) -> Html:
    """Error over samples, time and space, against distance and bound; the residual."""
    if shown is None or not data.get("samples"):
        return Html("")
    where = data["residual"]["place"] if data["residual"] else ""
    reason = shown.without_residuals
    missing = element("p", f"No map of the residual: {reason}.", css="soft") if reason else ""
    plots = panels(
        figure(
            "samples",
            "Over inputs.",
            f"The relative L2 error of each of {len(data['samples']['numbers'])} held-out inputs, "
            "in order of size: a steep end means few inputs that are much worse than the rest.",
        )
        if len(data["samples"]["numbers"]) > 1
        else "",
        figure(
            "overTime",
            "Over time.",
            "The relative L2 error at each time, against the reference at that time: median over "
            "the inputs, and the range of the middle 80 %.",
        )
        if data["overTime"]
        else "",
        figure(
            "overSpace",
            "Over space.",
            f"The root mean square error over all inputs and times at each point"
            f"{data['overSpace']['place']}, relative to that of the references.",
        )
        if data["overSpace"]
        else "",
        figure(
            "distance",
            "Against the distance from the centre.",
            "Inputs far from the centre of their distribution were seldom trained on; half of its "
            "inputs are closer than 1.",
        )
        if data["samples"]["distance"] and len(data["samples"]["numbers"]) > 1
        else "",
        figure(
            "bound",
            "Bound against error.",
            "A point above the line is an input whose error is within its bound; the further "
            "above, the less the bound says.",
        )
        if data["calibration"] or data["samples"]["bound"]
        else "",
        figure(
            "residual",
            "Residual.",
            f"How far the answer is from meeting the equation at each point{where}, in the "
            "equation's own units and powers of ten; it needs no reference.",
        )
        if data["residual"]
        else "",
    )
    return joined([plots, missing])


def _training(run: Run, data: Mapping[str, Any], evaluation: Mapping[str, Any]) -> Html:
    """Losses, step size, inferred parameters, other sensors and grids."""
    training = data["training"]
    if training is None:
        return Html("")
    parts = [
        figure(
            "losses",
            "Losses.",
            "The terms of the loss over the steps of training; a loss says whether training went "
            "on, not how accurate the operator is.",
        ),
        figure("rate", "Step size.", "The step size of the optimiser over the steps of training."),
    ]
    if training["weights"]:
        parts.append(
            figure(
                "weights",
                "Weights.",
                "The weight of each term of the loss, which adapts, over the steps of training.",
            )
        )
    if training["inferred"]:
        parts.append(
            figure("inferred", "Inferred parameters.", "Their values over the steps of training.")
        )
    if data["discretisation"]:
        parts.append(
            figure(
                "discretisation",
                "Other sensors and grids.",
                "The mean relative L2 error for each number of sensors of the inputs, over the "
                "points of the grid per axis on which it is evaluated.",
            )
        )
    residual = evaluation.get("residual") or {}
    sizes = ", ".join(f"{n}: {short(v)}" for n, v in residual.items() if v is not None)
    line = f"Residual on held-out inputs (root mean square): {sizes}." if sizes else ""
    return joined([panels(*parts), element("p", line, css="soft") if line else ""])
