"""Steady linear equations in divergence form on boxes: finite volumes and multigrid."""

from piop.reference.elliptic.solve import solve_elliptic

__all__ = ["solve_elliptic"]
