"""What one training step looks at, and how that follows the progress of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PointsConfig:
    """What one training step looks at.

    Attributes:
        functions: B, random input functions per step. Many small steps beat few large ones.
        queries: N, collocation points per function; 192 in two dimensions, 256 in three.
        method: How collocation points are placed.
        shared: All functions of a step share its points, so that a network does once what depends
            on the points alone: all of a DeepONet's trunk, little of a PIT.
        boundary: Points per function for each initial or periodic condition that is penalised.
        data_functions: Trajectories of the data set per step, when there is one.
        data_queries: Points per trajectory of the data set.
        grid: Points per space axis of the grid on which a network that answers on grids learns;
            0 for the spec's ``save``, at most 256, 32, 16 in one, two, three dimensions. Of data it
            takes as many, or all for 0.
        times: Times of that grid, both ends among them; 0 for 33, 17, 9. A march has its own.
        time_order: Order of the finite differences in time on that grid.
    """

    functions: int = 8
    queries: int = 128
    method: Literal["uniform", "sobol", "latin_hypercube", "grid", "residual_adaptive"] = "uniform"
    shared: bool = False
    boundary: int = 64
    data_functions: int = 16
    data_queries: int = 256
    grid: int = 0
    times: int = 0
    time_order: int = 4


@dataclass(frozen=True)
class SamplingConfig:
    """How points follow the residual and the progress of training.

    Attributes:
        candidates: Points among which ``method=residual_adaptive`` chooses, for each that it takes.
        power: k of its density |r|^k / mean |r|^k + c.
        floor: c of that density, dimensionless.
        horizon: Share of the time axis in which points are placed at first; 1 for no curriculum.
        horizon_until: Share of the budget after which points are placed in all of it.
    """

    candidates: int = 4
    power: float = 1.0
    floor: float = 1.0
    horizon: float = 1.0
    horizon_until: float = 0.5
