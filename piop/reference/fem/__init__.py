"""Steady problems on shapes in the plane by finite elements."""

from piop.reference.fem.solve import solve_on_shape

__all__ = ["solve_on_shape"]
