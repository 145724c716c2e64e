"""Radii that depend on the angle: smooth, periodic, through given values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self, final

import numpy as np

from piop.errors import PiopError
from piop.geometry.curve import Array

COUNT = 2048
"""Even angles at which a radius is looked at; its spline goes through these values."""
_ROUGH = 1e-5  # of the mean radius: how far a spline may miss values between


class GeometryError(PiopError):
    """A shape that has no boundary to speak of, or that cannot be meshed."""

    exit_code = 2


@final
class Radius:
    """A positive, periodic function of the angle: a cubic spline through values at even angles.

    Args:
        values: At angles 2πk/n ``[n]``.

    Raises:
        GeometryError: If a value is not positive or not finite.
    """

    def __init__(self, values: Array) -> None:
        bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if len(bad):
            angle = 2 * math.pi * bad[0] / len(values)
            message = f"its radius is {values[bad[0]]:.6g} at the angle {angle:.6g}"
            raise GeometryError(f"{message}; a positive number is needed")
        from scipy.interpolate import CubicSpline  # shapes without a star do not need it

        self.step = 2 * math.pi / len(values)
        angles = self.step * np.arange(len(values) + 1)
        self._spline = CubicSpline(angles, np.append(values, values[0]), bc_type="periodic")

    @classmethod
    def of(cls, function: Callable[[Array], Array]) -> Self:
        """Follow a function of the angle, ``[n]`` to ``[n]``.

        Raises:
            GeometryError: If it is not positive, or changes too fast to be followed.
        """
        angles = 2 * math.pi * np.arange(2 * COUNT) / (2 * COUNT)
        values = np.broadcast_to(function(angles), angles.shape)
        made = cls(values)  # of all values, so that every one is looked at
        coarse = cls(values[::2])
        missed = np.abs(coarse(angles[1::2]) - values[1::2])
        if missed.max() > _ROUGH * values.mean():
            angle = angles[1::2][missed.argmax()]
            message = f"its radius jumps, or changes too fast to be followed, at {angle:.6g}"
            raise GeometryError(f"{message}; fewer or longer waves are needed")
        return made

    def __call__(self, angles: Array) -> Array:
        """Values at angles."""
        return self._spline(angles % (2 * math.pi))

    def slope(self, angles: Array) -> Array:
        """Derivatives at angles."""
        return self._spline(angles % (2 * math.pi), 1)
