"""Every formula of a spec as SymPy, with what is wrong in any of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sympy import Expr

from piop.boundary import BoundaryCondition, normal_symbols
from piop.errors import Issue, Place
from piop.expression import Quantity, Refusal, Scalar, Scope, parse_equation, symbol
from piop.expression.parse import did_you_mean
from piop.spec.model import ConditionSpec, Spec, Text
from piop.spec.names import Names, declare
from piop.spec.read_domain import chooser, stars
from piop.spec.reader import evaluate, record, refuse

_INITIAL = re.compile(r"\s*(?:(?:d(\w+)|d)\(\s*(\w+)\s*((?:,\s*\w+\s*)*)\)|(\w+))\s*\Z")


@dataclass(frozen=True)
class Equation:
    """One scalar equation ``left = right`` and where it stands."""

    left: Expr
    right: Expr
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
            result.means[name] = _number(item.mean, spec, names, issues, f"auxiliary.{name}.mean")


def _gauge(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    for name, text in spec.gauge.items():
        result.gauge[name] = _number(text, spec, result.names, issues, f"gauge.{name}.mean")


def _definitions(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    names, done = result.names, result.definitions
    waiting = set(spec.definitions)
    for name, text in spec.definitions.items():
        waiting.discard(name)
        later = frozenset(waiting | {name})
        scope = names.scope(spec, done)
        values = {k: v for k, v in scope.values.items() if k not in later}
        own = replace(scope, values=values)
        value = _defined(text, own, later, name, issues)
        if value is None:
            names.broken |= {name}
        else:
            done[name] = value


def _defined(
    text: Text, scope: Scope, later: frozenset[str], name: str, issues: list[Issue]
) -> Quantity | None:
    words = set(re.findall(r"[A-Za-z]\w*", text.text)) & later
    if words:
        word = sorted(words)[0]
        offset = text.text.index(word)
        message = f"definitions.{name}: '{word}' is not defined yet"
        refuse(issues, text.at(offset), message, "A definition may use those above it.")
        return None
    return evaluate(text, scope, issues, f"definitions.{name}")


def _equation(text: Text, scope: Scope, issues: list[Issue], path: str) -> list[Equation]:
    try:
        left, right = parse_equation(text.text, scope)
    except Refusal as refusal:
        record(refusal, text, issues, path)
        return []
    return [Equation(a, b, text.place) for a, b in zip(_flat(left), _flat(right), strict=True)]


def _flat(value: Quantity) -> list[Expr]:
    if isinstance(value, Scalar):
        return [value.expr]
    return [e for part in value for e in _flat(part)]


def _number(text: Text, spec: Spec, names: Names, issues: list[Issue], path: str) -> float:
    values = {k: names.values[k] for k in names.constants if k in names.values}
    value = evaluate(text, Scope(values, broken=names.broken, used=names.used), issues, path)
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
        if item.expression is None:
            continue
        path = f"inputs.{name}.expression"
        angle = result.names.angle_of(spec, name)
        scope = (
            result.names.scope(spec, without=("unknowns", "auxiliary"))
            if angle is None
            else result.names.around(spec, angle)
        )
        values = {k: v for k, v in scope.values.items() if k != name}
        own = replace(scope, values=values)
        expr = _scalar(item.expression, own, issues, path)
        if expr is None:
            continue
        allowed = {scope.coordinates.get(t.text) for t in item.of}
        extra = (expr.free_symbols & set(result.names.coordinates.values())) - allowed
        if extra:
            names = ", ".join(sorted(map(str, extra)))
            refuse(
                issues,
                item.expression.place,
                f"{path}: depends on {names}, which 'of' does not name",
            )
        else:
            result.inputs[name] = expr


def _initial(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    known = [u.text for u in spec.unknowns]
    times = tuple(spec.time)
    for key, text in spec.initial.items():
        place = spec.place(f"initial.{key}")
        target = _initial_key(key, times)
        if target is None or target[0] not in known:
            name = target[0] if target else key
            hint = did_you_mean(name, known) or f"Write u or dt(u) for one of {', '.join(known)}."
            refuse(
                issues, place, f"initial: '{key}' is not an unknown or its time derivative", hint
            )
            continue
        if target in result.initial:
            refuse(issues, place, f"initial.{key}: given twice")
        scope = result.names.scope(
            spec, result.definitions, without=("unknowns", "auxiliary", "time")
        )
        scope = replace(scope, values=_without_unknowns(scope, spec, result))
        expr = _scalar(text, scope, issues, f"initial.{key}")
        if expr is not None:
            result.initial[target] = (expr, place)


def _without_unknowns(scope: Scope, spec: Spec, result: Resolved) -> dict[str, Quantity]:
    """Leave out definitions that contain an unknown."""
    unknowns = {
        value.expr
        for n in [*(u.text for u in spec.unknowns), *spec.auxiliary]
        if isinstance(value := result.names.values.get(n), Scalar)
    }
    return {
        k: v
        for k, v in scope.values.items()
        if k not in result.definitions or not any(e.has(u) for e in _flat(v) for u in unknowns)
    }


def _initial_key(key: str, times: tuple[str, ...]) -> tuple[str, int] | None:
    """``u`` to (u, 0); ``dt(u)``, ``d(u, t)`` to (u, 1)."""
    match = _INITIAL.match(key)
    if not match:
        return None
    letters, inner, along, plain = match.groups()
    if plain:
        return plain, 0
    if not times:
        return None
    if letters is not None:
        count, rest = divmod(len(letters), len(times[0]))
        return (inner, count) if not rest and letters == times[0] * count and not along else None
    words = [w.strip() for w in along.split(",")[1:]]
    if words == times[:1] or (len(words) == 2 and words[0] == times[0] and words[1] in "1234"):
        return inner, int(words[1]) if len(words) == 2 else 1
    return None


def _boundary(spec: Spec, result: Resolved, issues: list[Issue]) -> None:
    plain = result.names.scope(spec, result.definitions, without=("unknowns", "auxiliary"))
    plain = replace(plain, values=_without_unknowns(plain, spec, result))
    normals: dict[str, Quantity] = {n.name: symbol(n) for n in normal_symbols(spec.space)}
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
            values = _condition_values(condition, plain, full, issues, path)
            if values is not None:
                kind = condition.kind
                text = condition.values[0].text if kind.equation else ""
                done.append(kind(condition.unknown, values, text, condition.place))
        result.boundary[face] = tuple(done)


def _condition_values(
    condition: ConditionSpec, plain: Scope, full: Scope, issues: list[Issue], path: str
) -> tuple[Expr, ...] | None:
    if condition.kind.equation:
        found = _equation(condition.values[0], full, issues, path)
        if len(found) > 1:
            refuse(issues, condition.place, f"{path}: one scalar equation is needed")
        return (found[0].left - found[0].right,) if len(found) == 1 else None
    values = [
        _scalar(v, plain, issues, f"{path}.{condition.kind.keyword}") for v in condition.values
    ]
    return None if None in values else tuple(v for v in values if v is not None)


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
