"""Steady problems on shapes in the plane by finite elements."""
