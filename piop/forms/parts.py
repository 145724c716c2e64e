"""The parts a `Problem` is made of."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr

from piop.spec.distributions import Law


@dataclass(frozen=True)
class Input:
    """A function or number that the operator takes.

    Attributes:
        name: As in the spec.
        of: Names of the coordinates it depends on; empty for a number.
        law: How it is drawn, or None for an expression.
        expression: Of other inputs and coordinates, or None for a law.
        hidden: Drawn, but not shown to the network.
        smooth: Whether its point-wise derivatives exist.
        sensor_shape: Sensors per axis for ``grid``, else their number; ``(1,)`` for a number.
        place: How sensors are placed: ``grid``, ``uniform``, ``latin_hypercube``, ``sobol``, or
            ``points`` for those of the solution.
        symbol: ``Function(name)(*of)``, or a Symbol for a number.
    """

    name: str
    of: tuple[str, ...]
    law: Law | None
    expression: Expr | None
    hidden: bool
    smooth: bool
    sensor_shape: tuple[int, ...]
    place: str
    symbol: Expr


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
