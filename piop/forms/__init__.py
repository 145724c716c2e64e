"""Symbolic passes over equations, coordinates and conditions; free of torch."""
