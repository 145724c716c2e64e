"""The problems of the table: specs, test inputs, sensors, published figures, what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BACKBONES = ("pit", "deeponet", "modified_deeponet")
CPU_LIMITS = {1: (21, 128), 2: (6, 32)}
"""Times and points per space axis of the test grid on a CPU, by the number of space axes."""


@dataclass(frozen=True)
class Entry:
    """One problem of the table.

    Attributes:
        inputs: Test inputs at full scale.
        inputs_cpu: Test inputs of the scaled-down table.
        grid: Points of the test grid along each coordinate at full scale, ends of periodic axes
            left out; on a CPU at most ``CPU_LIMITS``.
        views: What the inputs are seen through → (count or counts per axis, place). The first
            is the table's; None stands for the spec's own sensors.
        published: Backbone → relative L2 as published.
        source: Of the published figures.
        differs: How law and test differ from those of the source.
        steps_cpu: Backbone → steps of a cell of the scaled-down table, half a minute of a core.
    """

    inputs: int
    inputs_cpu: int
    grid: Mapping[str, int]
    views: Mapping[str, tuple[int | tuple[int, ...], str] | None]
    published: Mapping[str, str]
    source: str
    differs: str
    steps_cpu: Mapping[str, int] = field(default_factory=dict)


ENTRIES: Mapping[str, Entry] = {
    "burgers": Entry(
        inputs=400,
        inputs_cpu=64,
        grid={"t": 100, "x": 256},
        views={"200 at random": (200, "uniform"), "64 at random": None},
        published={
            "deeponet": "0.266 ± 0.096",
            "modified_deeponet": "0.158 ± 0.092",
            "pit": "0.044 ± 0.023",
        },
        source="Dos Santos et al. 2023, table 1, sec. A.3",
        differs=(
            "Equation, domain, horizon, viscosity, ten sines, test grid (100 times, 256 points) "
            "and the number of test inputs are the paper's, and 200 sensors are its number of "
            "points for the initial condition. Its ranges of A, l and phi are unknown; ours are in "
            "the spec. It trains on 600 fixed inputs, and its published code takes the values at "
            "x = 0 and x = L from reference solutions; here every step draws fresh inputs and "
            "nothing comes from solutions."
        ),
        steps_cpu={"pit": 500, "deeponet": 500, "modified_deeponet": 350},
    ),
    "heat2d": Entry(
        inputs=200,
        inputs_cpu=32,
        grid={"t": 50, "x": 64, "y": 64},
        views={"400 at random": ((20, 20), "uniform"), "12 x 12 grid": None},
        published={
            "deeponet": "4.506 ± 1.281",
            "modified_deeponet": "4.202 ± 1.167",
            "pit": "0.340 ± 0.066",
        },
        source="Dos Santos et al. 2023, table 1, sec. A.3",
        differs=(
            "Equation, unit square, horizon [0, 1], nu = 0.01, a Gaussian random field, test grid "
            "(50 times, 64 x 64 points) and the number of test inputs are the paper's text, and "
            "400 sensors are its number of points for the initial condition. Its published code "
            "differs from the text: nu = 0.05, times from 0.02, 4096 sensors in the test. The "
            "field's covariance is not given there; ours is in the spec (six wave numbers per "
            "axis). It trains on 800 fixed inputs; here every step draws fresh ones."
        ),
        steps_cpu={"pit": 150, "deeponet": 400, "modified_deeponet": 200},
    ),
    "burgers_wang": Entry(
        inputs=400,
        inputs_cpu=64,
        grid={"t": 101, "x": 100},
        views={"101 on a grid": None},
        published={"modified_deeponet": "0.0142"},
        source=(
            "Wang, Wang and Perdikaris 2021, doi:10.1126/sciadv.abi8605: the authors' notebook, "
            "modified networks, 200 000 steps"
        ),
        differs=(
            "Equation, domain, horizon, viscosity, law, 101 sensors and 101 times are the source's "
            "(the prefactor of the law as in its code, see the spec). Its grids hold x = 1 beside "
            "x = 0; ours leave the right end out. Its test inputs are its own draws of the law."
        ),
        steps_cpu={"pit": 500, "deeponet": 500, "modified_deeponet": 350},
    ),
    "diffusion_reaction": Entry(
        inputs=400,
        inputs_cpu=64,
        grid={"t": 101, "x": 101},
        views={"101 on a grid": None},
        published={"deeponet": "0.0053"},
        source=(
            "Wang, Wang and Perdikaris 2021, doi:10.1126/sciadv.abi8605: the authors' notebook, "
            "120 000 steps"
        ),
        differs=(
            "Equation, constants, domain, horizon, zero walls and initial data, and 101 sensors "
            "are the source's. Its law has a squared exponential covariance of length 0.2; ours is "
            "the Matérn covariance of smoothness 4.5 and the same length, with zero slope at the "
            "walls. Its test inputs are its own draws of the law, its grid 100 x 100."
        ),
        steps_cpu={"pit": 500, "deeponet": 500, "modified_deeponet": 350},
    ),
    "advection_wang": Entry(
        inputs=400,
        inputs_cpu=64,
        grid={"t": 101, "x": 101},
        views={"101 on a grid": None},
        published={"modified_deeponet": "0.0095"},
        source=(
            "Wang, Wang and Perdikaris 2022, arXiv:2110.01654: the authors' notebook, modified "
            "networks with weights by the tangent kernel, 200 000 steps"
        ),
        differs=(
            "Equation, domain, horizon, initial data, inlet and 101 sensors are the source's. Its "
            "speed is v - min v + 1 with v of squared exponential covariance of length 0.2; ours "
            "is 1 + exp(g) with g of Matérn covariance, see the spec. Its test inputs are its own "
            "draws of the law."
        ),
        steps_cpu={"pit": 500, "deeponet": 500, "modified_deeponet": 350},
    ),
}
