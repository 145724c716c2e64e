"""The problem: a spec as mathematics, and the pure passes over it."""

from piop.boundary import BoundaryCondition
from piop.domain import Coordinate
from piop.forms.pde import Auxiliary, Input
from piop.problem.problem import Problem

__all__ = ["Auxiliary", "BoundaryCondition", "Coordinate", "Input", "Problem"]
