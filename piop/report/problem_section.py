"""The problem of a run: equations typeset from its spec, inputs, and how conditions are met."""

from __future__ import annotations

from sympy import Integer

from piop.problem import Problem
from piop.problem.describe import rows_of_text
from piop.problem.mathml import typeset_mathml
from piop.report.markup import Html, element, joined, table
from piop.training.choices import constraints_of
from piop.training.config import TrainingConfig

LONGEST = 300
"""Operations of an equation that is typeset; a longer one is shown as the spec has it."""
ROWS = ("class", "domain", "shape", "definitions", "parameters", "inputs", "learn", "initial",
        "boundary", "solver", "streams")  # fmt: skip
"""Rows of the description that are shown, in this order."""


def problem_section(problem: Problem, config: TrainingConfig) -> Html:
    """Show what was solved.

    Args:
        problem: The problem.
        config: The configuration of the training, which decides how conditions are met.
    """
    spec, rows = problem.spec, rows_of_text(problem)
    parts = [element("p", spec.source, css="soft")] if spec.source else []
    parts.append(_equations(problem, rows["equations"]))
    described = [(name, _lines(rows[name])) for name in ROWS if rows[name]]
    parts.append(table(described))
    met = [
        (c.what, "hard constraint" if c.hard else "soft constraint", c.why)
        for c in constraints_of(problem, config)
    ]
    if met:
        parts += [
            element("h3", "How each condition is met"),
            element(
                "p",
                "A hard constraint holds exactly, whatever the network; a soft constraint is a "
                "term of the loss, and holds as far as training has made it.",
                css="soft",
            ),
            table(met, ("condition", "met by", "because")),
        ]
    return joined(parts)


def _equations(problem: Problem, texts: list[str]) -> Html:
    """Typeset equations, with their text in the spec below."""
    residuals = problem.pde.residuals_raw
    if not residuals:
        return element("p", "No equations: the solutions are known from data alone.")
    parts: list[Html] = []
    for residual, line in zip(residuals, texts, strict=False):
        if residual.count_ops() <= LONGEST:
            parts.append(Html(typeset_mathml(residual, Integer(0))))
        parts.append(element("p", element("code", line), css="soft"))
    return joined(parts)


def _lines(values: list[str]) -> Html:
    return Html("<br>".join(element("span", value) for value in values))
