"""The fields of a `Problem` from a spec and its formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sympy import Expr

from piop.boundary import BoundaryCondition
from piop.domain import ENDS, Coordinate
from piop.errors import Issue, Place, did_you_mean
from piop.expression.parse import SYMPY_FAILS
from piop.expression.quantity import no_number
from piop.forms.differentiate import differentiate
from piop.forms.pde import PDE, Auxiliary
from piop.forms.terms import derivative_counts, name_of, outermost_atoms
from piop.problem.build_domain import build_domain, trace_shapes, varies
from piop.problem.inputs import read_inputs
from piop.spec.formulas import Resolved
from piop.spec.load import Draft
from piop.spec.model import Spec
from piop.spec.read_domain import part_names
from piop.spec.reader import raise_issues, refuse
from piop.spec.writer import hash_of

Faces = Mapping[str, tuple[BoundaryCondition, ...]]


def build_boundary(
    spec: Spec, resolved: Resolved, shapes: Mapping[str, Sequence[str]], issues: list[Issue]
) -> tuple[frozenset[str], Faces]:
    """Spread the conditions of an axis, and of ``rest``, over the faces they mean.

    Args:
        spec: As written.
        resolved: Its conditions.
        shapes: Faces of every shape that a sample may have, by where it stands; nothing for a box.
        issues: Takes what is wrong.

    Returns:
        The periodic axes, and the conditions of every other face that a shape has.
    """
    faces = list(dict.fromkeys(face for own in shapes.values() for face in own))
    if not faces:
        faces = [*(f"{axis}.{end}" for axis in spec.space for end in ENDS)]
        faces += part_names(spec.domain)
    sides = {axis: [f for f in faces if f in (f"{axis}.min", f"{axis}.max")] for axis in spec.space}
    named = {**{face: [face] for face in faces}, **sides}
    periodic: set[str] = set()
    found: dict[str, list[BoundaryCondition]] = {face: [] for face in faces}
    given: set[str] = set()
    for key, conditions in sorted(resolved.boundary.items(), key=lambda item: item[0] == "rest"):
        path, whole = f"boundary.{key}", any(c.whole_axis for c in conditions)
        named["rest"] = [face for face in faces if face not in given]
        if key not in named and "space" in resolved.failed:
            continue  # perhaps a face of the axis that was refused
        if key not in named:
            allowed = [*spec.space, *faces, "rest"]
            hint = did_you_mean(key, allowed) or f"One of {', '.join(allowed)}."
            refuse(issues, spec.place(path), f"boundary: '{key}' is not a face or an axis", hint)
            continue
        if not named[key] and key in spec.space:
            message = f"no part of the boundary lies on a side across {key}"
            issues.append(spec.issue(path, message, f"The faces are {', '.join(faces)}."))
        if whole and key not in spec.space:
            issues.append(spec.issue(path, "periodic holds for a whole axis, such as x"))
        elif whole and len(conditions) > 1:
            issues.append(spec.issue(path, "periodic excludes any other condition"))
        elif whole:
            periodic.add(key)
        for where, own in shapes.items() if key != "rest" and named[key] else ():
            if not set(named[key]) & set(own):
                message = f"{where} has no such face, and samples may have that shape"
                faces_there = f"Its faces are {', '.join(own)}"
                hint = f"{faces_there}; 'rest' holds on all faces, whatever they are."
                issues.append(spec.issue(path, message, hint))
        given.update(named[key])
        for face in named[key]:
            found[face] += [c for c in conditions if not c.whole_axis]
    for axis, face in ((axis, f"{axis}.{end}") for axis in sorted(periodic) for end in ENDS):
        if found.pop(face, None):
            message = f"{axis} is periodic; it has no other condition"
            issues.append(spec.issue(f"boundary.{face}", message))
    return frozenset(periodic), MappingProxyType({k: tuple(v) for k, v in found.items()})


_SAVE = {1: 256, 2: 64, 3: 32}  # points per axis, by number of space dimensions
_SAVE_TIMES = 101
_SAVE_POINTS = 1000  # of a cloud on shapes that differ
POINTS = "points"
"""Key of ``save`` for how many points solutions on shapes are at."""


def build(draft: Draft) -> dict[str, Any]:
    """The fields of a problem; what does not fit together is added to the issues of the draft.

    Raises:
        SpecError: If the coordinates themselves are unknown, so that nothing can be built.
    """
    spec, resolved, issues = draft
    if set(resolved.names.bounds) != {*spec.time, *spec.space}:
        raise_issues(issues)
    resolved = _differentiate_data(spec, resolved, issues)
    traced = trace_shapes(spec, resolved, issues)
    faces = {path: outline.faces for path, (_, outline) in traced.items()}
    periodic, boundary = build_boundary(spec, resolved, faces, issues)
    points = _points(spec, bool(traced), resolved, issues)
    names = resolved.names
    space = tuple(
        Coordinate(n, names.coordinates[n], *names.bounds[n], periodic=n in periodic)
        for n in (*spec.time, *spec.space)
    )
    time, space = (space[0], space[1:]) if spec.time else (None, space)
    auxiliaries = tuple(
        Auxiliary(name, e.residual, resolved.means.get(name, 0.0), name in resolved.means)
        for name, e in resolved.auxiliary.items()
    )
    raw = (*(e.residual for e in resolved.equations), *(a.equation for a in auxiliaries))
    residuals = _differentiate(raw, resolved, issues)
    unknowns = tuple(u.text for u in spec.unknowns if u.text in names.values)
    constants, angles = names.constants, names.angles.items()
    pde = PDE(
        name=spec.name,
        time=time,
        domain=build_domain(spec, resolved, traced, space),
        unknowns=unknowns,
        auxiliaries=auxiliaries,
        residuals=residuals,
        residuals_raw=raw,
        inputs=read_inputs(spec, resolved, points, issues),
        initial=MappingProxyType(_initial(unknowns, resolved)),
        time_order=MappingProxyType(_time_order(unknowns, time, residuals)),
        boundary=boundary,
        gauge=MappingProxyType(dict(resolved.gauge)),
        infer=MappingProxyType({t.text: constants.get(t.text, 0.0) for t in spec.infer}),
    )
    return {
        "spec": spec,
        "name": spec.name,
        "pde": pde,
        "angles": tuple(Coordinate(n, s, 0.0, 2 * math.pi, periodic=True) for n, s in angles),
        "save": _save(spec, resolved, issues),
        "points": points,
        "units": spec.units,
        "solve": spec.solve,
        "learn": spec.learn,
        "parameters": MappingProxyType(dict(constants)),
        "definitions": MappingProxyType(dict(resolved.definitions)),
        "hash": "" if issues else hash_of(spec, draft.resolved),
    }


def _differentiate(
    raw: tuple[Expr, ...], resolved: Resolved, issues: list[Issue]
) -> tuple[Expr, ...]:
    """Carry out the derivatives of compound expressions."""
    places = [e.place for e in (*resolved.equations, *resolved.auxiliary.values())]
    pairs = zip(raw, places, strict=True)
    return tuple(_carry_out(residual, place, "equations", issues) for residual, place in pairs)


def _carry_out(expression: Expr, place: Place, path: str, issues: list[Issue]) -> Expr:
    """Carry out the derivatives of compound expressions in one expression."""
    found = expression
    try:
        found = differentiate(expression)
        if why := no_number(found):  # log(lap(x) - 1)
            raise ArithmeticError(f"{why} once derivatives are carried out")
    except SYMPY_FAILS as error:
        clear = isinstance(error, ArithmeticError)
        refuse(issues, place, f"{path}: {error if clear else 'a derivative does not exist'}")
        raise_issues(issues)
    return found


def _differentiate_data(spec: Spec, resolved: Resolved, issues: list[Issue]) -> Resolved:
    """Carry out derivatives in initial data, boundary values and expressions of inputs."""

    def on_face(face: str, condition: BoundaryCondition) -> BoundaryCondition:
        if condition.equation:
            return condition
        path = f"boundary.{face}"
        values = [_carry_out(v, condition.place, path, issues) for v in condition.values]
        return replace(condition, values=tuple(values))

    initial = {
        key: (_carry_out(e, place, f"initial.{key[0]}", issues), place)
        for key, (e, place) in resolved.initial.items()
    }
    boundary = {k: tuple(on_face(k, c) for c in own) for k, own in resolved.boundary.items()}
    paths = {name: f"inputs.{name}.expression" for name in resolved.inputs}
    inputs = {
        name: _carry_out(e, spec.place(paths[name]), paths[name], issues)
        for name, e in resolved.inputs.items()
    }
    return replace(resolved, initial=initial, boundary=boundary, inputs=inputs)


def _initial(unknowns: tuple[str, ...], resolved: Resolved) -> dict[str, tuple[Expr, ...]]:
    orders = {name: sorted(n for k, n in resolved.initial if k == name) for name in unknowns}
    return {k: tuple(resolved.initial[k, n][0] for n in own) for k, own in orders.items() if own}


def _time_order(
    unknowns: tuple[str, ...], time: Coordinate | None, residuals: tuple[Expr, ...]
) -> dict[str, int]:
    """Highest time derivative of each unknown in any equation."""
    found = dict.fromkeys(unknowns, 0)
    for atom in (a for residual in residuals for a in outermost_atoms(residual)):
        if time is not None and name_of(atom) in found:
            order = derivative_counts(atom).get(time.symbol, 0)
            found[name_of(atom)] = max(found[name_of(atom)], order)
    return found


def _save(spec: Spec, resolved: Resolved, issues: list[Issue]) -> tuple[int, ...]:
    shaped = (spec.domain is not None and len(spec.space) == 2) or "domain" in resolved.failed
    known = [*spec.time, *spec.space, *((POINTS,) if shaped else ())]
    for name in spec.save:
        if name not in known:
            refuse(issues, spec.place(f"save.{name}"), f"save: '{name}' is not a coordinate")
    times = [spec.save.get(name, _SAVE_TIMES) for name in spec.time]
    return (*times, *(spec.save.get(name, _SAVE[len(spec.space)]) for name in spec.space))


def _points(spec: Spec, shaped: bool, resolved: Resolved, issues: list[Issue]) -> int | None:
    """Points of a cloud: what is given, and for shapes that differ one number for all samples."""
    if not shaped:
        # Of a shape that cannot be read nothing else is reported, as that it has no points.
        broken = "domain" in resolved.failed or (spec.domain is not None and len(spec.space) == 2)
        return spec.save.get(POINTS, _SAVE_POINTS) if broken else None
    if POINTS not in spec.save and not varies(spec, resolved):
        return None
    axis = next((name for name in spec.space if name in spec.save), "")
    if axis and POINTS in spec.save:
        message = f"save: points say where solutions on a shape are, and {axis} too"
        refuse(issues, spec.place(f"save.{axis}"), message, "Leave one out.")
    elif axis:
        message = "save: solutions on shapes that differ from sample to sample are on no grid"
        hint = f"Write {{points: {_SAVE_POINTS}}}."
        refuse(issues, spec.place(f"save.{axis}"), message, hint)
    return spec.save.get(POINTS, _SAVE_POINTS)
