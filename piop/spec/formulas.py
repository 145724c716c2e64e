"""Every formula of a spec as SymPy, with what is wrong in any of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from sympy import Expr

from piop.boundary import BoundaryCondition, normal_symbols
from piop.errors import Issue, Place, did_you_mean
from piop.expression import Quantity, Refusal, Scalar, Scope, parse_equation
from piop.spec.model import Spec, Text
from piop.spec.names import Names, declare
from piop.spec.read_domain import chooser, stars
from piop.spec.reader import evaluate, record, refuse


@dataclass(frozen=True)
class Equation:
    """One scalar equation, its left minus its right side, and where it stands."""

    residual: Expr
    place: Place


@dataclass
class Resolved:
    """All formulas of a spec.

    Attributes:
        names: What the names stand for.
        equations: One per component; auxiliary ones in ``auxiliary``.
        initial: (unknown, order in time) to expression and place.
        boundary: Face as written to its conditions.
        inputs: Expressions of inputs that have one.
        gauge: Unknown to mean.
        means: Auxiliary unknown to mean, where one is given.
        definitions: Named sub-expressions.
        radii: Where a star stands in the domain to its radius.
        failed: Sections in which something was refused.
    """

    names: Names
    equations: list[Equation] = field(default_factory=list)
    auxiliary: dict[str, Equation] = field(default_factory=dict)
    initial: dict[tuple[str, int], tuple[Expr, Place]] = field(default_factory=dict)
    boundary: dict[str, tuple[BoundaryCondition, ...]] = field(default_factory=dict)
    inputs: dict[str, Expr] = field(default_factory=dict)
    gauge: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    definitions: dict[str, Quantity] = field(default_factory=dict)
    radii: dict[str, Expr] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)


def resolve(
    spec: Spec,
    issues: list[Issue],
    broken: frozenset[str] = frozenset(),
    failed: frozenset[str] = frozenset(),
) -> Resolved:
    """Parse every formula of a spec.

    Args:
        spec: As written.
        issues: Takes what is wrong.
        broken: Names whose declaration was refused already.
        failed: Sections in which something was refused already.
    """
    known = len(issues)
    names = declare(spec, issues, broken, failed)
    result = Resolved(names, failed=set(failed))
    if len(issues) > known or broken:
        result.failed.add("names")
    for section, read in _SECTIONS.items():
        before = len(issues)
        read(spec, result, issues)
        if len(issues) > before:
            result.failed.add(section)
    return result


def _equations(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    scope = result.names.scope(spec, result.definitions)
    for text in spec.equations:
        found = _equation(text, scope, issues, "equations")
        result.equations += found
        if not found:  # also where a broken name keeps it silent
            result.failed.add("equations")


def _auxiliary(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    names = result.names
    scope = names.scope(spec, result.definitions)
    for name, item in spec.auxiliary.items():
        found = _equation(item.equation, scope, issues, f"auxiliary.{name}.equation")
        if len(found) > 1:
            refuse(issues, item.equation.place, f"auxiliary.{name}: one scalar equation is needed")
        elif found:
            result.auxiliary[name] = found[0]
        else:
            result.failed.add("auxiliary")
        if item.mean is not None:
            result.means[name] = _number(item.mean, names, issues, f"auxiliary.{name}.mean")


def _gauge(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    for name, text in spec.gauge.items():
        result.gauge[name] = _number(text, result.names, issues, f"gauge.{name}.mean")


def _definitions(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    names, done = result.names, result.definitions
    later = {*spec.definitions}
    for name, text in spec.definitions.items():
        words = {m[0]: m.start() for m in re.finditer(r"(?<![\w.])[A-Za-z]\w*", text.text)}
        if unknown := later.intersection(words):
            word = min(unknown)
            message = f"definitions.{name}: '{word}' is not defined yet"
            place = text.at(words[word])
            refuse(issues, place, message, "A definition may use those above it.")
            value = None
        else:
            value = evaluate(text, names.scope(spec, done), issues, f"definitions.{name}")
        if value is None:
            names.broken |= {name}
        else:
            done[name] = value
        later.discard(name)


def _equation(text: Text, scope: Scope, issues: list[Issue], path: str) -> list[Equation]:
    try:
        left, right = parse_equation(text.text, scope)
    except Refusal as refusal:
        record(refusal, text, issues, path)
        return []
    return [Equation(a - b, text.place) for a, b in zip(_flat(left), _flat(right), strict=True)]


def _flat(value: Quantity) -> list[Expr]:
    if isinstance(value, Scalar):
        return [value.expr]
    return [e for part in value for e in _flat(part)]


def _number(text: Text, names: Names, issues: list[Issue], path: str) -> float:
    value = evaluate(text, names.numbers, issues, path)
    if isinstance(value, Scalar) and value.number is not None:
        return value.number
    if value is not None:
        refuse(issues, text.place, f"{path}: a number is needed")
    return 0.0


def _scalar(text: Text, scope: Scope, issues: list[Issue], path: str) -> Expr | None:
    value = evaluate(text, scope, issues, path)
    if isinstance(value, tuple):
        refuse(issues, text.place, f"{path}: one value is needed, not a vector")
        return None
    return None if value is None else value.expr


def _inputs(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    for name, item in spec.inputs.items():
        if item.expression is None or name not in result.names.values:
            continue
        path = f"inputs.{name}.expression"
        angle = result.names.angle_of(spec, name)
        if angle is None:
            scope = result.names.scope(spec, {}, without=("unknowns", "auxiliary"))
        else:
            scope = result.names.around(spec, angle)
        scope = replace(scope, values={k: v for k, v in scope.values.items() if k != name})
        expr = _scalar(item.expression, scope, issues, path)
        if expr is None:
            continue
        allowed = {scope.coordinates.get(t.text) for t in item.of}
        if extra := expr.free_symbols & {*result.names.coordinates.values()} - allowed:
            names = ", ".join(sorted(map(str, extra)))
            message = f"{path}: depends on {names}, which 'of' does not name"
            refuse(issues, item.expression.place, message)
        else:
            result.inputs[name] = expr
    symbols = [(k, _flat(result.names.values[k])) for k in result.inputs]
    uses = {k: [o for o, own in symbols if e.has(*own)] for k, e in result.inputs.items()}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle = set(error.args[1])
        name, *others = (k for k in spec.inputs if k in circle)
        message = f"inputs.{name}.expression: refers to itself through {', '.join(others)}"
        hint = f"Give {name} a distribution ('law'), or an expression without {others[0]}."
        refuse(issues, spec.place(f"inputs.{name}.expression"), message, hint)


def _initial(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    known = [u.text for u in spec.unknowns]
    times, scope = tuple(spec.time), _known(spec, result, "time")
    for key, text in spec.initial.items():
        place = spec.place(f"initial.{key}")
        target = _initial_key(key, times)
        if target is None or target[0] not in known:
            name = target[0] if target else key
            hint = did_you_mean(name, known) or f"Write u or dt(u) for one of {', '.join(known)}."
            message = f"initial: '{key}' is not an unknown or its time derivative"
            refuse(issues, place, message, hint)
            continue
        if target in result.initial:
            refuse(issues, place, f"initial.{key}: given twice")
        expr = _scalar(text, scope, issues, f"initial.{key}")
        if expr is not None:
            result.initial[target] = (expr, place)


def _known(spec: Spec, result: Resolved, *without: str) -> Scope:
    """The scope of conditions: no unknowns, nor definitions that contain one."""
    scope = result.names.scope(spec, result.definitions, ("unknowns", "auxiliary", *without))
    names = [*(u.text for u in spec.unknowns), *spec.auxiliary]
    found = [result.names.values.get(name) for name in names]
    unknowns = [value.expr for value in found if isinstance(value, Scalar)]
    values = {
        k: v
        for k, v in scope.values.items()
        if k not in result.definitions or not any(e.has(*unknowns) for e in _flat(v))
    }
    return replace(scope, values=values)


def _initial_key(key: str, times: tuple[str, ...]) -> tuple[str, int] | None:
    """``u`` to (u, 0); ``dt(u)``, ``d(u, t)`` to (u, 1); ``dtt(u)``, ``d(u, t, 2)`` to (u, 2)."""
    key = re.sub(r"\s*([(),])\s*", r"\1", key.strip())
    if re.fullmatch(r"\w+", key):
        return key, 0
    for time in map(re.escape, times):
        if found := re.fullmatch(rf"d((?:{time})+)\((\w+)\)", key):
            return found[2], found[1].count(times[0])
        if found := re.fullmatch(rf"d\((\w+),{time}(?:,([1-4]))?\)", key):
            return found[1], int(found[2] or 1)
    return None


def _boundary(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    plain = _known(spec, result)
    normals: dict[str, Quantity] = {n.name: Scalar(n) for n in normal_symbols(spec.space)}
    full = result.names.scope(spec, {**normals, **result.definitions})
    known = [u.text for u in spec.unknowns] + list(spec.auxiliary)
    for face, conditions in spec.boundary.items():
        done = []
        for condition in conditions:
            path = f"boundary.{face}"
            if condition.unknown and condition.unknown not in known:
                message = f"{path}: '{condition.unknown}' is not an unknown"
                refuse(issues, condition.place, message, did_you_mean(condition.unknown, known))
                continue
            kind, text = condition.kind, ""
            if kind.equation:
                text = condition.values[0].text
                equations = _equation(condition.values[0], full, issues, path)
                if len(equations) > 1:
                    refuse(issues, condition.place, f"{path}: one scalar equation is needed")
                values = [e.residual for e in equations] if len(equations) == 1 else [None]
            else:
                where = f"{path}.{kind.keyword}"
                values = [_scalar(value, plain, issues, where) for value in condition.values]
            read = tuple(value for value in values if value is not None)
            if len(read) == len(values):
                done.append(kind(condition.unknown, read, text, condition.place))
        result.boundary[face] = tuple(done)


def _domain(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    for star in stars(spec.domain):
        scope = result.names.around(spec, star.angle.text)
        expr = _scalar(star.radius, scope, issues, f"{star.path}.star.radius")
        if expr is not None:
            result.radii[star.path] = expr
    if (by := chooser(spec.domain)) is not None:
        result.names.used.add(by.text)


_SECTIONS = {
    "definitions": _definitions,
    "equations": _equations,
    "auxiliary": _auxiliary,
    "gauge": _gauge,
    "inputs": _inputs,
    "initial": _initial,
    "boundary": _boundary,
    "domain": _domain,
}
