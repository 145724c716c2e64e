"""Boxes with walls: Chebyshev collocation in space, Radau IIA in time, Newton where steady."""

from piop.reference.chebyshev.solve import solve_with_walls

__all__ = ["solve_with_walls"]
