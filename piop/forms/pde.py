"""`PDE`: equations, coordinates and conditions, one immutable value that forms are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sympy import Expr, Function

from piop.boundary import BoundaryCondition
from piop.domain import Outline
from piop.forms.parts import Auxiliary, Coordinate, Input


@dataclass(frozen=True, eq=False)
class PDE:
    """Equations with their coordinates, inputs and conditions; immutable.

    Attributes:
        name: Of the problem, for messages.
        time: None for a steady problem.
        space: One to three coordinates.
        outlines: Boundary of its region in the plane, or of each of those that a sample may have;
            nothing on a box.
        is_box: Whether the domain is the box of its coordinates.
        unknowns: Primary unknowns.
        auxiliaries: Unknowns fixed by a linear elliptic equation.
        residuals: Left minus right of every equation, derivatives carried out, constant parameters
            substituted; those of auxiliary unknowns last.
        residuals_raw: The same with derivatives as written, for flux forms.
        inputs: In the order of the spec, parameters given by a distribution first.
        initial: Unknown to (u0, v0, …), by order in time.
        time_order: Unknown to its order in time.
        boundary: Face (``x.min``) to its conditions; periodic axes have no face.
        gauge: Unknown to its mean, where the equations leave a constant.
        infer: Parameter to be trained, and its starting value.
    """

    name: str
    time: Coordinate | None
    space: tuple[Coordinate, ...]
    outlines: tuple[Outline, ...]
    is_box: bool
    unknowns: tuple[str, ...]
    auxiliaries: tuple[Auxiliary, ...]
    residuals: tuple[Expr, ...]
    residuals_raw: tuple[Expr, ...]
    inputs: tuple[Input, ...]
    initial: Mapping[str, tuple[Expr, ...]]
    time_order: Mapping[str, int]
    boundary: Mapping[str, tuple[BoundaryCondition, ...]]
    gauge: Mapping[str, float]
    infer: Mapping[str, float]

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """All coordinates, time first."""
        return ((self.time,) if self.time else ()) + self.space

    @property
    def channels(self) -> tuple[str, ...]:
        """Unknowns and auxiliary ones: the C channels of a field."""
        return self.unknowns + tuple(a.name for a in self.auxiliaries)

    @property
    def periodic(self) -> bool:
        """Whether every space axis is periodic."""
        return all(c.periodic for c in self.space)

    def function(self, name: str) -> Expr:
        """The applied function (or symbol) of an unknown or an input, such as ``u(t, x)``.

        Raises:
            KeyError: If there is none of this name.
        """
        if name in self.channels:
            return Function(name, real=True)(*(c.symbol for c in self.coordinates))
        return {i.name: i.symbol for i in self.inputs}[name]
