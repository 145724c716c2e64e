"""The domain of a problem, from the words of ``domain:``.

Where there are regions to select from, or the radius of a star depends on inputs, the region
differs from sample to sample. What holds for all radii, such as the names of the faces, is read off
one: that of inputs in the middle of their distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy
from sympy import Expr

from piop.domain import (
    Box,
    Coordinate,
    Domain,
    GeometryError,
    Outline,
    PlaneRegion,
    Radius,
    RegionFamily,
    Shape,
    trace,
)
from piop.domain.plane_region import OUTLINE
from piop.errors import Issue
from piop.expression.functions import evaluate
from piop.spec.formulas import Resolved
from piop.spec.model import Spec
from piop.spec.read_domain import alternatives, chooser, part_names, stars
from piop.spec.reader import refuse
from piop.spec.shapes import ShapeBuilder

Traced = Mapping[str, tuple[Shape, Outline]]
"""Shapes and their boundaries, by where the shapes stand in the spec."""


def build_domain(
    spec: Spec, resolved: Resolved, traced: Traced, axes: tuple[Coordinate, ...]
) -> Domain:
    """Put the domain of a problem together.

    Args:
        spec: As written.
        resolved: Its radii.
        traced: The shapes that samples may have; nothing for a box.
        axes: The coordinates of space.
    """
    if not traced:
        return Box(axes)
    paths = {path.removeprefix("domain.of."): found for path, found in traced.items()}
    members = {name: PlaneRegion(axes, *found) for name, found in paths.items()}
    if not varies(spec, resolved):
        return next(iter(members.values()))
    by = chooser(spec.domain)
    return RegionFamily(
        axes,
        MappingProxyType(members),
        "" if by is None else by.text,
        MappingProxyType(dict(resolved.radii)),
        _redrawn(spec, resolved),
    )


def varies(spec: Spec, resolved: Resolved) -> bool:
    """Tell whether regions differ from sample to sample: by selection, or by a radius of inputs."""
    return chooser(spec.domain) is not None or _redrawn(spec, resolved)


def _redrawn(spec: Spec, resolved: Resolved) -> bool:
    """Tell whether a radius depends on inputs."""
    atoms: list[Any] = [
        resolved.names.values.get(n) for n in (*spec.inputs, *spec.random_parameters)
    ]
    return any(r.has(*(a.expr for a in atoms if a)) for r in resolved.radii.values())


def trace_shapes(spec: Spec, resolved: Resolved, issues: list[Issue]) -> Traced:
    """Trace the boundaries of the shapes in the plane that samples may have.

    Returns:
        The shapes in their order; those of inputs in the middle of their distributions where radii
        depend on them. Nothing for a problem without ``domain``, in other dimensions, or where one
        cannot be traced, which is then among the issues.
    """
    if spec.domain is None or len(spec.space) != 2 or resolved.failed & {"domain", "space"}:
        return {}
    if any(stars(spec.domain)) and resolved.failed & {"inputs", "names"}:
        return {}
    names = resolved.names
    first, second = spec.space
    sides = names.bounds[first], names.bounds[second]
    found = {}
    shapes = alternatives(spec.domain)
    for path, words in shapes.items():
        for name in sorted({*spec.space, "rest", OUTLINE} & set(part_names(words))):
            place = spec.place(f"{path}.holes.{name}")
            message = f"{path}.holes: '{name}' has a meaning in boundary; choose another"
            refuse(issues, place, message)
        middle = _Middle(spec, resolved, path)
        try:
            shape = ShapeBuilder(names.numbers, middle).whole(words, path)
            found[path] = shape, trace(shape, sides, (first, second))
        except GeometryError as error:
            where = " where inputs are in the middle of their distributions" if middle.used else ""
            refuse(issues, spec.place(middle.path), f"{middle.path}: {error}{where}")
    return found if len(found) == len(shapes) else {}


class _Middle:
    """Radii with every input in the middle of its distribution.

    Attributes:
        used: Whether an input stood in any.
        path: Of the star that was looked at last, while it may be at fault.
    """

    def __init__(self, spec: Spec, resolved: Resolved, whole: str) -> None:
        self.spec, self.resolved = spec, resolved
        self.used, self.path, self.whole = False, whole, whole

    def __call__(self, path: str) -> Radius:
        """The radius of the star that stands at a path."""
        self.path = path
        words = next(s for s in stars(self.spec.domain) if s.path == path)
        angle = self.resolved.names.angles[words.angle.text]
        expression = self._without_inputs(self.resolved.radii[path])
        if left := sorted(str(s) for s in expression.free_symbols - {angle}):
            raise GeometryError(f"its radius depends on {left[0]}, which is to be inferred")

        def radius(angles: Any) -> Any:
            values = evaluate(expression, lambda atom: angles if atom == angle else np.nan)
            return np.broadcast_to(values, angles.shape)

        found = Radius.of(radius)
        self.path = self.whole
        return found

    def _without_inputs(self, expression: Expr) -> Expr:
        """Replace every input by the middle of its distribution."""
        values = self.resolved.names.values
        for name in (*self.spec.inputs, *self.spec.random_parameters):
            atom: Any = getattr(values.get(name), "expr", None)
            if atom is not None and expression.has(atom):
                self.used = True
                replaced: Any = expression.subs(atom, self._middle(name)).doit()
                expression = replaced
        return expression

    def _middle(self, name: str) -> Expr:
        if name in self.resolved.inputs:
            return self._without_inputs(self.resolved.inputs[name])
        item = self.spec.inputs.get(name)
        distribution: Any = self.spec.parameters[name] if item is None else item.distribution
        value = None if distribution is None else distribution.middle
        if value is None:
            reason = "whose distribution has no middle that the shape could be traced for"
            raise GeometryError(f"its radius depends on {name}, {reason}")
        return sympy.Float(value)
