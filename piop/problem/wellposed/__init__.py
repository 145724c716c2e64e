"""Checks that reject ill-posed or inconsistent problems whose formulas can all be read.

Each pass looks for one kind of mistake and adds issues; a pass runs only where the sections it
reads were understood, so that one mistake is not reported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from piop.errors import Issue
from piop.expression.parse import SYMPY_FAILS
from piop.problem.wellposed.compatibility import note_contradictions
from piop.problem.wellposed.distributions import check_distributions, check_rough
from piop.problem.wellposed.domain import check_boundary, check_domain
from piop.problem.wellposed.equations import (
    check_data,
    check_equations,
    check_initial,
    check_usage,
    note_observed_twice,
)
from piop.problem.wellposed.evolution import check_flux, check_growth
from piop.problem.wellposed.periodic import (
    check_gauge,
    check_periodicity,
    check_solvable,
    note_jumps,
)
from piop.spec.formulas import Resolved
from piop.spec.load import Draft
from piop.spec.reader import raise_issues

if TYPE_CHECKING:
    from piop.problem.problem import Problem

Pass = Callable[["Problem", Resolved], Iterator[Issue]]

_EQUATIONS = frozenset(
    {"names", "unknowns", "equations", "auxiliary", "definitions", "time", "space"}
)
_COUNTS: tuple[tuple[Pass, frozenset[str]], ...] = (
    (check_usage, frozenset()),
    (check_domain, frozenset({"domain", "space"})),
    (check_distributions, frozenset({"inputs", "names", "boundary", "space"})),
    (check_equations, _EQUATIONS),
    (check_initial, _EQUATIONS | {"initial"}),
    (check_boundary, _EQUATIONS | {"boundary", "domain"}),
)
_MATHEMATICS: tuple[Pass, ...] = (
    check_periodicity,
    check_gauge,
    check_solvable,
    check_growth,
    check_flux,
    check_rough,
)
_NOTES: tuple[Pass, ...] = (note_jumps, note_contradictions, note_observed_twice)
_OF_DATA: tuple[tuple[Pass, frozenset[str]], ...] = (*_COUNTS[1:3], (check_data, frozenset()))
"""Passes for a problem without equations, which is known from its solutions alone."""


def check(problem: Problem, draft: Draft) -> tuple[str, ...]:
    """Run every pass.

    Returns:
        Notes on what is let pass.

    Raises:
        SpecError: With all issues, sorted by place.
    """
    resolved, issues = draft.resolved, draft.issues
    notes: list[Issue] = []
    for look, needs in _COUNTS if problem.spec.equations else _OF_DATA:
        if not needs & resolved.failed:
            issues += look(problem, resolved)
    if not issues and problem.residuals:
        for look in _MATHEMATICS:
            with suppress(*SYMPY_FAILS):  # what cannot be decided is let pass
                issues += look(problem, resolved)
        for look in _NOTES:
            with suppress(*SYMPY_FAILS):
                notes += look(problem, resolved)
    raise_issues(issues)
    problem.at()  # a coefficient to infer is a symbol, whose sign the passes above do not know
    return tuple(map(str, notes))
