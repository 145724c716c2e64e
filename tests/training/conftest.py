"""A small problem and the pieces of its training, in double precision."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch

from piop.problem import Problem
from piop.residual import compile_residual
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import (
    AdaptiveConfig,
    BudgetConfig,
    LossConfig,
    MachineConfig,
    PointsConfig,
    SamplingConfig,
    TrainingConfig,
)
from piop.training.loss.statistics import distribution_statistics
from tests.small_heat import HEAT

SMALL = {"width": 8, "blocks": 1, "heads": 2}


@pytest.fixture(scope="session")
def heat():
    return Problem.from_yaml(HEAT)


def build(problem, data=None, physics=True, points=None, sampling=None, **settings):
    """Everything of a small run in float64, without a folder."""
    own = {field.name for field in fields(LossConfig)}
    loss = {key: value for key, value in settings.items() if key in own}
    adaptive = {key: value for key, value in settings.items() if key not in own}
    config = TrainingConfig(
        BudgetConfig(steps=4),
        points or PointsConfig(functions=3, queries=20, boundary=6),
        sampling or SamplingConfig(),
        LossConfig(**{"linear_part": "learned", **loss}),  # as ExactHeat below
        AdaptiveConfig(**adaptive),
        machine=MachineConfig(precision="float64"),
        backbone_settings=SMALL,
        physics=physics,
    )
    statistics = distribution_statistics(problem.at(), compile_residual(problem.at()), 0)
    model = build_model(problem, statistics, config)
    objective = build_objective(model, statistics, config, data=data is not None)
    draw = build_source(model, objective, statistics, config, data)
    return SimpleNamespace(
        problem=problem,
        config=config,
        statistics=statistics,
        model=model,
        loss=objective,
        draw=draw,
    )


@pytest.fixture
def built(heat):
    return build(heat)


@pytest.fixture(scope="session")
def builder():
    return build


class ExactHeat(torch.nn.Module):
    """Stands for a backbone: the exact solution of ``HEAT`` as the operator would need it.

    u = u0 + τ·scale·net with u = exp(-0.05 π² (t - 1)) u0 and u0 = a cos πx + b sin πx read off
    the eight sensors.
    """

    def __init__(self, scale, hard):
        super().__init__()
        self.scale, self.hard = scale, hard

    def forward(self, inputs, queries):
        x, values = inputs["u0"].points[..., 0], inputs["u0"].values[..., 0]
        a = (values * torch.cos(torch.pi * x)).mean(1) * 2
        b = (values * torch.sin(torch.pi * x)).mean(1) * 2
        time, place = queries[..., 0:1] - 1.0, queries[..., 1:2] * torch.pi
        start = torch.cos(place) * a[:, None, None] + torch.sin(place) * b[:, None, None]
        decay = torch.exp(time * (-0.05 * torch.pi**2))
        if not self.hard:
            return start * decay / self.scale
        return start * (decay - 1.0) / time / self.scale


@pytest.fixture(scope="session")
def exact():
    return ExactHeat
