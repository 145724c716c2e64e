"""Boundary conditions: one class per kind, and the table of their keywords."""

from piop.boundary.condition import BoundaryCondition, RobinForm, normal_symbols
from piop.boundary.kinds import (
    CONDITIONS,
    Dirichlet,
    GeneralCondition,
    Neumann,
    Outflow,
    Periodic,
    Robin,
    Wall,
)

__all__ = [
    "CONDITIONS",
    "BoundaryCondition",
    "Dirichlet",
    "GeneralCondition",
    "Neumann",
    "Outflow",
    "Periodic",
    "Robin",
    "RobinForm",
    "Wall",
    "normal_symbols",
]
