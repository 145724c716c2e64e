"""The part of an error that comes from sensors too few to determine the inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.errors import NotSupportedError
from piop.fields import FunctionSamples
from piop.metrics import relative_l2
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.run.prediction import predict_values
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.sampling.random import COMPARISON
from piop.sampling.sensors import group_by_sensors
from piop.training.build import Model

DRAWS, POINTS = 16, 1024
"""Inputs of the distribution, and points of their predictions, which are compared."""


def has_fewer_sensors(problem: Problem, observed: Inputs) -> bool:
    """Whether an input is observed at fewer sensors than the spec places."""
    counts = {item.name: math.prod(item.sensor_shape) for item in problem.visible_inputs}
    return any(samples.fewest_sensors < counts[name] for name, samples in observed.items())


def sensor_error(problem: Problem, model: Model, observed: Inputs) -> Tensor:
    """Return how much predictions from these sensors differ from those from the spec's sensors.

    Args:
        problem: The problem, its parameters being numbers.
        model: The operator.
        observed: Sensors of B samples.

    Returns:
        Relative L2 difference, the mean of some inputs of the distribution, for the sensors of each
        sample ``[B]``; once for all samples whose sensors are the same.

    Raises:
        NotSupportedError: Where the distribution is not known, or the operator predicts no points.
    """
    if model.operator.end_only:
        raise NotSupportedError(f"{problem.name}: the operator predicts the final time alone")
    draws = Draws.of(COMPARISON, 0, range(DRAWS))
    functions = sample_inputs(problem, draws)
    at = Queries(points=collocation(problem, Draws.of(COMPARISON, 0, range(1)), POINTS))
    whole = predict_values(problem, model, observe(functions, problem, draws), at)
    batch = max(len(samples.values) for samples in observed.values())
    observed = {name: samples.repeat(batch) for name, samples in observed.items()}
    found = torch.empty(batch, dtype=torch.float64)
    for rows in group_by_sensors(observed).values():
        seen = {}
        for name, samples in observed.items():
            own = samples.take(rows[:1])
            points = own.points.double()
            values = functions[name](points)[..., None]
            seen[name] = FunctionSamples(points, values, own.mask).repeat(DRAWS)
        found[rows] = relative_l2(predict_values(problem, model, seen, at), whole).mean()
    return found
