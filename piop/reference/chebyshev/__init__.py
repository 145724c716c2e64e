"""Boxes with walls: Chebyshev collocation in space, Radau IIA in time, Newton where steady."""
