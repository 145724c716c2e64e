"""Parts of a problem that are data: they hold coordinates, and no unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import sympy
from sympy import Expr
from sympy.core.function import AppliedUndef

from piop.expression.functions import KINKS, is_applied
from piop.forms.differentiate import partial
from piop.forms.terms import applied, derivative_counts, name_of, outermost_atoms
from piop.problem import Problem
from piop.reference.input_values import Sources

_TERMS = 8
"""Terms of a sum up to which each is looked at by itself."""


def data_of(problem: Problem) -> tuple[tuple[str, Expr], ...]:
    """Parts of equations and conditions that may hide something between points.

    Returns:
        Each with the face of its condition, or no name.
    """
    return tuple(own for own in _known_in(problem) if may_hide(problem, own[1]))


def _known_in(problem: Problem) -> tuple[tuple[str, Expr], ...]:
    """Parts of equations and conditions that hold no unknown, each with its face."""
    pde = problem.pde
    unknowns = frozenset(problem.channels)
    found = [("", part) for r in pde.residuals_raw for part in _known_parts(r, unknowns)]
    for face, condition in pde.face_conditions:
        ends = {
            f"{c.name}.{end}": {c.symbol: sympy.Float(position)}
            for c in problem.space
            for end, position in (("min", c.low), ("max", c.high))
        }
        values = condition.values
        if condition.equation:
            normals = [pde.domain.normal(face)]
            if not all(n.is_number for n in normals[0]):  # a curve: each component by itself
                normals = [tuple(row) for row in sympy.eye(len(problem.space)).tolist()]
            values = tuple(pde.condition_residual(face, condition, n) for n in normals)
        parts = (part for value in values for part in _known_parts(value, unknowns))
        found += [(face, _substitute(part, ends.get(face, {}))) for part in parts]
    factors = [(face, factor) for face, e in found for factor in _separate(problem, e)]
    return tuple(dict.fromkeys(factors))


def coefficients_in(problem: Problem) -> Iterator[tuple[int, Expr, tuple[Expr, ...]]]:
    """Yield sources of equations and coefficients of their terms that may hide something.

    Those of auxiliary equations, and within derivatives, are left out.

    Returns:
        Number of the equation, what the coefficient stands before (1 for the sum of all sources),
        and its factors: one of time alone first, if there is one.
    """
    unknowns = frozenset(problem.channels)
    for i, residual in enumerate(problem.pde.residuals_raw[: len(problem.unknowns)]):
        terms: Any = sympy.Add.make_args(residual)
        sources = sympy.Add(*(t for t in terms if _known(t, unknowns))).doit()
        found: list[tuple[Any, Any]] = [(sympy.S.One, sources)]
        for term in terms:
            if term.is_Mul and not _known(term, unknowns):
                known = [f for f in term.args if _known(f, unknowns)]
                rest = sympy.Mul(*(f for f in term.args if f not in known))
                found.append((rest, sympy.Mul(*known).doit()))
        for rest, known in found:
            if may_hide(problem, known):
                yield i, rest, tuple(f for f in _separate(problem, known) if f != 1)


def _separate(problem: Problem, expression: Expr) -> Iterator[Expr]:
    """Yield the factor of time alone and the others, if a product has one."""
    if problem.time is None or not expression.is_Mul:
        yield expression
        return
    time, space = problem.time.symbol, [c.symbol for c in problem.space]
    alone = [f for f in expression.args if f.has(time) and not f.has(*space)]
    for factors in (alone, [f for f in expression.args if f not in alone]):
        yield expression.func(*factors)


def initial_data_of(problem: Problem) -> tuple[Expr, ...]:
    """Initial data that may hide something between points."""
    found = dict.fromkeys(e for _, _, e in initial_in(problem))
    return tuple(e for e in found if may_hide(problem, e))


def initial_in(problem: Problem) -> Iterator[tuple[str, int, Expr]]:
    """Yield each unknown, the order of its time derivative, and the initial data of that."""
    if problem.time is not None:
        start = {problem.time.symbol: sympy.Float(problem.time.low)}
        for unknown, own in problem.initial.items():
            for order, expression in enumerate(own):
                yield unknown, order, _substitute(expression, start)


def diffusion_in(problem: Problem) -> tuple[Expr, ...]:
    """Coefficients of second derivatives in space that may hide something, without unknowns."""
    found, twice = dict[Expr, None](), [{c.symbol: 2} for c in problem.space]
    for residual in problem.residuals:
        for atom in outermost_atoms(residual):
            if name_of(atom) in problem.channels and derivative_counts(atom) in twice:
                coefficient = partial(residual, atom)
                if may_hide(problem, coefficient) and _known(coefficient, {*problem.channels}):
                    found[coefficient] = None
    return tuple(found)


def stored_data_of(sources: Sources) -> tuple[tuple[str, Any, bool], ...]:
    """Interpolants between given points in data, or derivatives of them.

    Returns:
        Each with the face of its condition or no name, and whether it is in initial data.
    """
    problem = sources.problem
    given = {i.name: i.expression for i in problem.inputs if i.expression is not None}
    waiting = [(face, e, False) for face, e in _known_in(problem)]
    waiting += [("", e, True) for _, _, e in initial_in(problem)]
    found: list[tuple[str, Any, bool]] = []
    while waiting:
        face, expression, initial = waiting.pop()
        for atom in outermost_atoms(expression):
            if name_of(atom) in given:
                waiting.append((face, given[name_of(atom)], initial))
                continue
            function = sources.functions.get(name_of(atom))
            if function is not None and function.given_at:
                found.append((face, atom, initial))
    return tuple(dict.fromkeys(found))


def may_hide(problem: Problem, expression: Expr) -> bool:
    """Whether data may vary faster than drawn functions do.

    Coordinates in an expression may do anything. Jumps and kinks where drawn functions cross a
    value are looked for along a single coordinate: in more, they lie between the points of every
    grid differently.
    """
    atoms = outermost_atoms(expression)
    rest = expression.xreplace({atom: sympy.Dummy() for atom in atoms})
    if rest.free_symbols & {c.symbol for c in problem.coordinates}:
        return True
    if rest.has(*KINKS) and any(len(applied(atom).args) == 1 for atom in atoms):
        return True
    given = {i.name: i.expression for i in problem.inputs if i.expression is not None and i.of}
    return any(may_hide(problem, given[name_of(a)]) for a in atoms if name_of(a) in given)


def terms_of(problem: Problem, expression: Expr) -> list[Expr]:
    """Terms of a sum that may vary faster than drawn functions do, each by its own size."""
    terms = sympy.Add.make_args(sympy.expand_mul(expression, deep=False))
    return [e for e in terms if may_hide(problem, e)] if 1 < len(terms) <= _TERMS else []


def _known(part: Any, unknowns: Set[str]) -> bool:
    return not any(name_of(a) in unknowns for a in part.atoms(AppliedUndef))


def _known_parts(node: Any, unknowns: frozenset[str]) -> Iterator[Expr]:
    """Largest parts of an expression without unknowns; of a sum or product, all as one."""
    if _known(node, unknowns):
        yield node.doit()
    elif node.is_Add or node.is_Mul:
        if own := [a for a in node.args if _known(a, unknowns)]:
            yield node.func(*own).doit()
        for part in node.args:
            if part not in own:
                yield from _known_parts(part, unknowns)
    elif not is_applied(node):
        for part in [node.expr] if node.is_Derivative else node.args:
            if isinstance(part, Expr):
                yield from _known_parts(part, unknowns)


def _substitute(expression: Any, values: Mapping[Any, Expr]) -> Expr:
    """Set coordinates to numbers, but not where they are arguments of functions."""
    expression = sympy.sympify(expression)
    stand_ins = {atom: sympy.Dummy() for atom in outermost_atoms(expression)}
    back = {dummy: atom for atom, dummy in stand_ins.items()}
    return expression.xreplace(stand_ins).xreplace(dict(values)).xreplace(back)
