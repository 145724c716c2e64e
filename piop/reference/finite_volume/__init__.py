"""Finite volumes for conservation laws: MUSCL, HLLC or HLL, SSP-RK3, on boxes."""

from piop.reference.finite_volume.solve import solve_law

__all__ = ["solve_law"]
