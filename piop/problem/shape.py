"""The shape of a problem in the plane, from the words of ``domain:``.

Where there are shapes to choose from, or the radius of a star depends on inputs, the shape differs
from sample to sample. What holds for all radii, such as the names of the faces, is read off one:
that of inputs in the middle of their laws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import sympy
from sympy import Expr

from piop.domain import (
    Difference,
    Disk,
    GeometryError,
    Outline,
    Polygon,
    Radius,
    Shape,
    Star,
    Union,
    box,
    named_by_sides,
    outline,
)
from piop.errors import Issue
from piop.expression import Scope, as_number, parse
from piop.forms.numeric import evaluate
from piop.forms.parts import Choice, Coordinate
from piop.spec import distributions as laws
from piop.spec.model import Spec
from piop.spec.names import refuse
from piop.spec.read_domain import alternatives, chooser, part_names, stars
from piop.spec.resolve import Resolved
from piop.spec.tree import Node, ScalarNode

OUTLINE = "outline"
"""Face of what lies on no side of the box around a shape and belongs to no hole."""


def varies(spec: Spec, resolved: Resolved) -> bool:
    """Whether shapes differ from sample to sample: by choice, or by a radius of inputs."""
    if chooser(spec.domain) is not None:
        return True
    drawn = [n for n, v in spec.parameters.items() if not isinstance(v, ScalarNode)]
    atoms = [resolved.names.values[n] for n in (*spec.inputs, *drawn) if n in resolved.names.values]
    return any(r.has(*(a.expr for a in atoms)) for r in resolved.radii.values())  # type: ignore[union-attr]


class Varied(Protocol):
    """What :func:`outline_of` reads of a ``Problem``."""

    space: tuple[Coordinate, ...]
    region: Shape | None
    shape: Outline | None
    choice: Choice | None


def outline_of(problem: Varied, radii: Mapping[str, Radius], number: int = 0) -> Outline:
    """Trace the boundary of a problem's shape for one sample.

    Args:
        problem: The ``Problem``.
        radii: Of its stars, by the keys of ``problem.radii``.
        number: Of the shape, where there are several to choose from.

    Raises:
        GeometryError: If there is no such number, or if the shape leaves the space of the problem,
            is in pieces, touches itself, or has other faces than the problem.
    """
    region, known = problem.region, problem.shape
    if problem.choice is not None:
        if not 0 <= number < len(problem.choice.regions):
            last = len(problem.choice.regions) - 1
            raise GeometryError(f"its number is {number}, and there are shapes 0 to {last}")
        region, known = problem.choice.regions[number], problem.choice.outlines[number]
    assert region is not None and known is not None  # noqa: S101 - it has a shape
    first, second = problem.space
    sides = (first.low, first.high), (second.low, second.high)
    found = _traced(region.with_radii(radii), sides, (first.name, second.name))
    if set(found.faces) != set(known.faces):
        have, usual = (", ".join(sorted(o.faces)) for o in (found, known))
        raise GeometryError(f"its faces are {have}, and conditions are given on {usual}")
    return found


def _traced(region: Shape, sides: Sequence[tuple[float, float]], names: tuple[str, str]) -> Outline:
    for star in region.stars():
        places = np.concatenate([c.at(np.linspace(0, 1, 257)) for c in star.curves()])
        for axis, (low, high) in enumerate(sides):
            least, most = places[:, axis].min(), places[:, axis].max()
            slack = 1e-9 * (high - low)
            if least < low - slack or most > high + slack:
                raise GeometryError(
                    f"the star {star.key.removeprefix('domain.')} [{least:.4g}, {most:.4g}] along "
                    f"{names[axis]} reaches out of the interval [{low:g}, {high:g}] of space"
                )
    return named_by_sides(outline(region), sides[0], sides[1], names, OUTLINE)


def read_shape(
    spec: Spec, resolved: Resolved, issues: list[Issue]
) -> tuple[tuple[Shape, ...], tuple[Outline, ...]]:
    """Trace the boundaries of shapes in the plane, their pieces named by faces they are part of.

    Returns:
        The shape and its boundary, or those to choose from in their order; those of inputs in the
        middle of their laws where radii depend on them. Nothing for a problem without ``domain``,
        in other dimensions, or where one cannot be traced, which is then among the issues.
    """
    if spec.domain is None or len(spec.space) != 2 or resolved.failed & {"domain", "space"}:
        return (), ()
    if any(stars(spec.domain)) and resolved.failed & {"inputs", "names"}:
        return (), ()
    names = resolved.names
    values = {n: names.values[n] for n in names.constants if n in names.values}
    constants = Scope(values, used=names.used)
    first, second = spec.space
    sides = names.bounds[first], names.bounds[second]
    regions, outlines = [], []
    shapes = alternatives(spec.domain)
    for path, words in shapes.items():
        for name in sorted({*spec.space, "rest", OUTLINE} & set(part_names(words))):
            place = spec.place(f"{path}.holes.{name}")
            refuse(
                issues, place, f"{path}.holes: '{name}' has a meaning in boundary; choose another"
            )
        middle = _Middle(spec, resolved, path)
        try:
            regions.append(_Reader(constants, middle).whole(words, path))
            outlines.append(_traced(regions[-1], sides, (first, second)))
        except GeometryError as error:
            where = " where inputs are in the middle of their laws" if middle.used else ""
            refuse(issues, spec.place(middle.path), f"{middle.path}: {error}{where}")
    return (tuple(regions), tuple(outlines)) if len(outlines) == len(shapes) else ((), ())


def choice_of(
    spec: Spec, regions: tuple[Shape, ...], outlines: tuple[Outline, ...]
) -> Choice | None:
    """What a sample's shape is chosen from; None where there is one, or none."""
    by = chooser(spec.domain)
    if by is None or spec.domain is None or not regions:
        return None
    names = tuple(path.removeprefix("domain.of.") for path in alternatives(spec.domain))
    return Choice(by.text, names, regions, outlines)


class _Middle:
    """Radii with every input in the middle of its law.

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
        """Put the middle of its law in place of every input."""
        values = self.resolved.names.values
        known = [n for n in self._random() if n in values]
        for name in known:
            atom: Any = values[name].expr  # type: ignore[union-attr]
            if expression.has(atom):
                self.used = True
                replaced: Any = expression.subs(atom, self._middle(name)).doit()
                expression = replaced
        return expression

    def _random(self) -> list[str]:
        numbers = [n for n, v in self.spec.parameters.items() if not isinstance(v, ScalarNode)]
        return [*self.spec.inputs, *numbers]

    def _middle(self, name: str) -> Expr:
        if name in self.resolved.inputs:
            return self._without_inputs(self.resolved.inputs[name])
        item = self.spec.inputs.get(name)
        law: Any = self.spec.parameters[name] if item is None else item.law
        match law:
            case laws.GaussianRandomField() | laws.Normal():
                value = law.mean
            case laws.FourierSeries():
                value = 0.0
            case laws.Uniform() | laws.LogUniform() | laws.PiecewiseConstant():
                value = 0.5 * (law.low + law.high)
            case laws.Integer():
                value = (law.low + law.high) // 2
            case laws.Constant():
                value = law.value
            case _:
                raise GeometryError(
                    f"its radius depends on {name}, whose law has no middle that the shape could "
                    "be looked at for"
                )
        return sympy.Float(value)


class _Reader:
    """Builds shapes from what was checked when the spec was read."""

    def __init__(self, constants: Scope, radius: Callable[[str], Radius]) -> None:
        self.constants, self.radius = constants, radius

    def whole(self, node: Any, path: str) -> Shape:
        """The shape less its holes."""
        found = {key.text: value for key, value in node.items}
        holes = found.pop("holes", None)
        shape = self.shape(*next(iter(found.items())), path)
        if holes is None or not holes.items:
            return shape
        removed = tuple(
            self.named(hole, f"{path}.holes.{name.text}", name.text) for name, hole in holes.items
        )
        return Difference(shape, removed)

    def named(self, node: Any, path: str, face: str = "") -> Shape:
        """A shape written as a mapping of one key."""
        ((kind, value),) = node.items
        return self.shape(kind.text, value, path, face)

    def shape(self, kind: str, node: Any, path: str, face: str = "") -> Shape:
        """A shape of a kind; its boundary has the name ``face``."""
        if kind in ("union", "difference"):
            parts = enumerate(node.items)
            first, *rest = (self.named(part, f"{path}.{kind}.{n}", face) for n, part in parts)
            return Union((first, *rest)) if kind == "union" else Difference(first, tuple(rest))
        if kind == "star":
            centre = next(value for key, value in node.items if key.text == "centre")
            return Star(self.pair(centre), self.radius(path), path, face)
        if kind == "disk":
            x, y, radius = (self.number(v) for v in node.items)
            return Disk((x, y), radius, face)
        rows = tuple(self.pair(row) for row in node.items)
        return box(rows[0], rows[1], face) if kind == "box" else Polygon(rows, face)

    def pair(self, node: Any) -> tuple[float, float]:
        """Two numbers."""
        first, second = (self.number(v) for v in node.items)
        return first, second

    def number(self, node: Node) -> float:
        """A number, or an expression of constants."""
        assert isinstance(node, ScalarNode)  # noqa: S101 - checked when it was read
        return as_number(parse(node.text, self.constants))
