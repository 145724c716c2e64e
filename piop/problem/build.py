"""A spec and its formulas to the fields of a `Problem`."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import sympy
from sympy import Expr, Piecewise, Symbol

from piop.errors import Issue
from piop.problem.faces import read_faces
from piop.problem.parts import Auxiliary, Coordinate, Input
from piop.spec import laws
from piop.spec.canonical import hash_of
from piop.spec.model import SensorSpec, Spec
from piop.spec.names import refuse
from piop.spec.resolve import Resolved
from piop.spec.tree import Scalar

_SENSORS = {0: 1, 1: 64, 2: 256, 3: 512}  # by number of coordinates
_SAVE = {1: 256, 2: 64, 3: 32}  # points per axis, by number of space dimensions
_SAVE_TIMES = 101


def build(spec: Spec, resolved: Resolved, issues: list[Issue]) -> dict[str, Any]:
    """The fields of a problem.

    Args:
        spec: As written.
        resolved: Its formulas.
        issues: Takes what does not fit together.
    """
    periodic, boundary = read_faces(spec, resolved, issues)
    time, space = _coordinates(spec, resolved, periodic)
    auxiliaries = tuple(
        Auxiliary(name, e.left - e.right, resolved.means.get(name, 0.0), name in resolved.means)
        for name, e in resolved.auxiliary.items()
    )
    raw = (*(e.left - e.right for e in resolved.equations), *(a.equation for a in auxiliaries))
    unknowns = tuple(u.text for u in spec.unknowns)
    return {
        "spec": spec,
        "name": spec.name,
        "hash": hash_of(spec, resolved),
        "time": time,
        "space": space,
        "unknowns": unknowns,
        "auxiliaries": auxiliaries,
        "residuals_raw": raw,
        "residuals": tuple(r.doit() for r in raw),
        "inputs": _inputs(spec, resolved, issues),
        "initial": _initial(unknowns, resolved),
        "time_order": MappingProxyType(_time_order(unknowns, time, raw, resolved)),
        "boundary": boundary,
        "gauge": MappingProxyType(dict(resolved.gauge)),
        "save": _save(spec, time, space, issues),
        "units": spec.units,
        "solve": spec.solve,
        "infer": MappingProxyType(
            {t.text: resolved.names.constants.get(t.text, 0.0) for t in spec.infer}
        ),
        "learn": spec.learn,
        "parameters": MappingProxyType(dict(resolved.names.constants)),
        "definitions": MappingProxyType(dict(resolved.definitions)),
    }


def _coordinates(
    spec: Spec, resolved: Resolved, periodic: frozenset[str]
) -> tuple[Coordinate | None, tuple[Coordinate, ...]]:
    names = resolved.names
    made = [
        Coordinate(n, names.coordinates[n], *names.bounds[n], periodic=n in periodic)
        for n in (*spec.time, *spec.space)
    ]
    return (made[0], tuple(made[1:])) if spec.time else (None, tuple(made))


def _initial(unknowns: tuple[str, ...], resolved: Resolved) -> MappingProxyType[str, tuple[Expr, ...]]:
    found: dict[str, tuple[Expr, ...]] = {}
    for name in unknowns:
        orders = sorted(n for k, n in resolved.initial if k == name)
        if orders:
            found[name] = tuple(resolved.initial[name, n][0] for n in orders)
    return MappingProxyType(found)


def _time_order(
    unknowns: tuple[str, ...], time: Coordinate | None, raw: tuple[Expr, ...], resolved: Resolved
) -> dict[str, int]:
    """Highest time derivative of each unknown in any equation."""
    orders = dict.fromkeys(unknowns, 0)
    if time is None:
        return orders
    for residual in raw:
        for derivative in residual.atoms(sympy.Derivative):
            count = dict(derivative.variable_count).get(time.symbol, 0)
            for name in unknowns:
                if derivative.has(resolved.names.values[name].expr):  # type: ignore[union-attr]
                    orders[name] = max(orders[name], int(count))
    return orders


def _inputs(spec: Spec, resolved: Resolved, issues: list[Issue]) -> tuple[Input, ...]:
    for name in spec.sensors:
        if name not in spec.inputs and not _is_random(spec, name):
            refuse(issues, spec.place(f"sensors.{name}"), f"sensors: '{name}' is not an input")
        elif name in spec.inputs and spec.inputs[name].hidden:
            message = f"sensors: '{name}' is hidden, so it has no sensors"
            refuse(issues, spec.place(f"sensors.{name}"), message)
    found = []
    for name, value in spec.parameters.items():
        if not isinstance(value, Scalar):
            symbol = Symbol(name, real=True)
            found.append(Input(name, (), value, None, False, True, (1,), "uniform", symbol))
    for name, item in spec.inputs.items():
        of = tuple(t.text for t in item.of)
        expression = resolved.inputs.get(name)
        smooth = _smooth(item.law, expression) if item.smooth is None else item.smooth
        shape, place = _sensors(spec, name, len(of), issues)
        symbol = resolved.names.values[name].expr  # type: ignore[union-attr]
        found.append(Input(name, of, item.law, expression, item.hidden, smooth, shape, place, symbol))
    return tuple(found)


def _is_random(spec: Spec, name: str) -> bool:
    return name in spec.parameters and not isinstance(spec.parameters[name], Scalar)


def _smooth(law: laws.Law | None, expression: Expr | None) -> bool:
    if isinstance(law, laws.PiecewiseConstant):
        return False
    return expression is None or not expression.has(Piecewise, sympy.sign)


def _sensors(
    spec: Spec, name: str, dimension: int, issues: list[Issue]
) -> tuple[tuple[int, ...], str]:
    sensor = spec.sensors.get(name, SensorSpec())
    place = spec.place(f"sensors.{name}.count")
    if dimension == 0:
        if sensor.count not in (None, (1,)):
            refuse(issues, place, f"sensors.{name}: a number has one sensor")
        return (1,), sensor.place
    count = sensor.count or (_SENSORS[min(dimension, 3)],)
    if sensor.place != "grid":
        return count, sensor.place
    if len(count) == 1 and dimension > 1:
        side = round(count[0] ** (1 / dimension))
        if side**dimension != count[0]:
            hint = f"Write {side**dimension}, or the counts per axis as a list."
            message = f"sensors.{name}: {count[0]} points make no grid of {dimension} equal sides"
            refuse(issues, place, message, hint)
        return (side,) * dimension, sensor.place
    if len(count) != dimension:
        refuse(issues, place, f"sensors.{name}: {len(count)} counts for {dimension} coordinates")
    return count, sensor.place


def _save(
    spec: Spec, time: Coordinate | None, space: tuple[Coordinate, ...], issues: list[Issue]
) -> tuple[int, ...]:
    known = [*spec.time, *spec.space]
    for name in spec.save:
        if name not in known:
            refuse(issues, spec.place(f"save.{name}"), f"save: '{name}' is not a coordinate")
    axes = [spec.save.get(c.name, _SAVE[len(space)]) for c in space]
    return tuple(([spec.save.get(time.name, _SAVE_TIMES)] if time else []) + axes)
