"""The whole prediction of a run as one module, from sensor values and points to the unknowns."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from piop.export.sensors import QUERIES, SAMPLES, Argument, SensorArguments
from piop.problem import Problem
from piop.run.prediction import evaluate_at
from piop.training.build import Model


@final
class Prediction(nn.Module):
    """Sensors, then points ``[N, D]`` that all samples share, to ``[B, N]`` for each unknown.

    Args:
        problem: The problem.
        model: The operator and its lift.
        sensors: How the inputs are given.
    """

    def __init__(self, problem: Problem, model: Model, sensors: SensorArguments) -> None:
        super().__init__()
        self.problem, self.model, self.sensors = problem, model, sensors
        self.operator = model.operator

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Evaluate the operator, as :func:`piop.run.prediction.predict_values` does."""
        *given, queries = tensors
        observed = self.sensors.observe(given)
        functions = self.sensors.interpolate(observed)
        values = evaluate_at(self.model, functions, observed, queries.double()[None])
        return tuple(values.to(queries.dtype).unbind(-1))

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Describe the tensors that it takes."""
        names = [c.name for c in self.problem.coordinates]
        meaning = f"points of the prediction: {', '.join(names)}"
        queries = Argument("queries", (QUERIES, len(names)), meaning, self.sensors.units(*names))
        return (*self.sensors.arguments(), queries)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Describe the tensors that it gives."""
        return tuple(
            Argument(name, (SAMPLES, QUERIES), f"prediction of {name}", self.sensors.units(name))
            for name in self.problem.channels
        )
