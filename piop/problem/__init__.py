"""The problem: a spec as mathematics, and the pure passes over it."""

from piop.domain import Coordinate
from piop.forms.pde import Input
from piop.problem.problem import Problem

__all__ = ["Coordinate", "Input", "Problem"]
