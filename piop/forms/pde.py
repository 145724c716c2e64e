"""Equations, coordinates, inputs and conditions as one immutable value that forms are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Function

from piop.boundary import BoundaryCondition, normal_symbols
from piop.domain import Coordinate, Domain
from piop.forms.differentiate import differentiate
from piop.spec.distributions import Distribution, History
from piop.spec.model import SensorPlacement


@dataclass(frozen=True)
class Input:
    """A function or number that the operator takes.

    Attributes:
        name: As in the spec.
        of: Names of the coordinates it depends on; empty for a number.
        distribution: How it is drawn, or None for an expression.
        expression: Of other inputs and coordinates, or None for a distribution.
        hidden: Drawn, but not shown to the network.
        smooth: Whether its point-wise derivatives exist.
        sensor_shape: Sensors per axis for ``grid``, else their number; ``(1,)`` for a number.
        place: How sensors are placed.
        symbol: ``Function(name)(*of)``, or a Symbol for a number.
    """

    name: str
    of: tuple[str, ...]
    distribution: Distribution | None
    expression: Expr | None
    hidden: bool
    smooth: bool
    sensor_shape: tuple[int, ...]
    place: SensorPlacement
    symbol: Expr

    @property
    def history(self) -> History | None:
        """The past of the solution that it is; None for any other input."""
        return self.distribution if isinstance(self.distribution, History) else None


@dataclass(frozen=True)
class Auxiliary:
    """An unknown fixed by a linear elliptic equation.

    Attributes:
        name: As in the spec.
        equation: Residual, left minus right.
        mean: Mean over the domain where the equation leaves a constant, else 0.
        gauged: Whether the spec gives the mean.
    """

    name: str
    equation: Expr
    mean: float = 0.0
    gauged: bool = False


@dataclass(frozen=True, eq=False)
class PDE:
    """Equations with their coordinates, inputs and conditions; immutable.

    Attributes:
        name: Of the problem, for messages.
        time: None for a steady problem.
        domain: The region of space.
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
    domain: Domain
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
    def space(self) -> tuple[Coordinate, ...]:
        """One to three coordinates of space."""
        return self.domain.axes

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

    @property
    def means(self) -> dict[str, float]:
        """Each unknown of which the spec gives the mean, auxiliary ones too, and that mean."""
        return dict(self.gauge) | {a.name: a.mean for a in self.auxiliaries if a.gauged}

    def function(self, name: str) -> Expr:
        """The applied function (or symbol) of an unknown or an input, such as ``u(t, x)``.

        Raises:
            KeyError: If there is none of this name.
        """
        return self._functions[name]

    @cached_property
    def _functions(self) -> Mapping[str, Expr]:
        symbols = [c.symbol for c in self.coordinates]
        unknown = {name: Function(name, real=True)(*symbols) for name in self.channels}
        return {i.name: i.symbol for i in self.inputs} | unknown

    @property
    def face_conditions(self) -> tuple[tuple[str, BoundaryCondition], ...]:
        """Each face of the domain with each of its conditions."""
        faces = self.domain.faces
        return tuple((face, c) for face in faces for c in self.boundary.get(face, ()))

    def prescribed(self, channel: str, face: str) -> Expr | None:
        """The prescribed value of a channel on a face; None without one."""
        for condition in self.boundary.get(face, ()):
            if condition.unknown == channel and condition.prescribed is not None:
                return condition.prescribed
        return None

    def condition_residual(
        self, face: str, condition: BoundaryCondition, normal: Sequence[Expr] = ()
    ) -> Expr:
        """Return left minus right of a condition, derivatives carried out.

        Args:
            face: Where it holds.
            condition: The condition.
            normal: The outward normal; by default that of the face.
        """
        normal = normal or self.domain.normal(face)
        space = [c.symbol for c in self.space]
        found: Any = differentiate(condition.residual(self.function, space, normal))
        if not condition.equation:  # in which nx is a name like any other
            return found
        symbols = normal_symbols(c.name for c in self.space)
        return found.xreplace(dict(zip(symbols, normal, strict=True)))
