"""Steady linear equations in divergence form on boxes: finite volumes and multigrid."""
