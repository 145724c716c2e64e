"""Random input functions, sensors and collocation points, all keyed by (seed, step, sample)."""

from piop.sampling.collocation import boundary_points, collocation, initial_points
from piop.sampling.distributions import InputSampler, sample_inputs
from piop.sampling.random import Draws
from piop.sampling.sensors import observe, place_sensors, reconstruct

__all__ = [
    "Draws",
    "InputSampler",
    "boundary_points",
    "collocation",
    "initial_points",
    "observe",
    "place_sensors",
    "reconstruct",
    "sample_inputs",
]
