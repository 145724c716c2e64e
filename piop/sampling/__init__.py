"""Random input functions, sensors and collocation points, all keyed by (seed, step, sample)."""

from piop.sampling.collocation import boundary_points, collocation, initial_points
from piop.sampling.distributions import sample_inputs
from piop.sampling.expressions import ExpressionFunction
from piop.sampling.functions import (
    FourierFunction,
    GridFunction,
    PiecewiseConstantFunction,
    ScalarFunction,
)
from piop.sampling.moments import input_statistics
from piop.sampling.random import Draws
from piop.sampling.reconstruct import expected_reconstruction_error, reconstruct
from piop.sampling.sensors import observe, place_sensors

__all__ = [
    "Draws",
    "ExpressionFunction",
    "FourierFunction",
    "GridFunction",
    "PiecewiseConstantFunction",
    "ScalarFunction",
    "boundary_points",
    "collocation",
    "expected_reconstruction_error",
    "initial_points",
    "input_statistics",
    "observe",
    "place_sensors",
    "reconstruct",
    "sample_inputs",
]
