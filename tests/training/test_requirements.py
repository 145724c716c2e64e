"""What keeps a network from a problem is found before anything is built, from shapes alone."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from piop.errors import UsageError
from piop.models.core.base import GRID_FIELD, Backbone, Preset, Signature
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.training.build import signature_of
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.loss.statistics import Statistics
from piop.training.requirements import (
    able_backbones,
    obstacle,
    require_backbone,
    require_choices,
    require_range,
)
from tests.small_heat import HEAT


@dataclass(frozen=True)
class Sizes:
    """One choice that decides."""

    walls: bool = False


class Picky(Backbone):
    """Serves no walls unless told to, and knows the end alone."""

    end_only = True

    @classmethod
    def refusal(cls, signature, config):
        walls = [axis.name for axis in signature.coordinates[1:] if not axis.periodic]
        return f"axis {walls[0]!r} has walls" if walls and not config.walls else None

    def forward(self, inputs, queries):
        raise NotImplementedError


def shapes(constraints="auto") -> Signature:
    problem = Problem.from_file("heat")
    return signature_of(problem, decide_constraints(problem, constraints))


@pytest.mark.parametrize(
    ("constraints", "config", "physics", "reason"),
    [
        ("auto", Sizes(), False, None),
        ("auto", Sizes(), True, "it answers at the end of the time axis alone"),
        ("soft", Sizes(), False, "axis 'x' has walls"),
        ("soft", Sizes(walls=True), False, None),
    ],
)
def test_an_obstacle_is_the_refusal_or_what_the_equations_ask_beyond_it(
    constraints, config, physics, reason
):
    found = obstacle(Preset(Picky, Sizes()), shapes(constraints), physics=physics, config=config)
    assert found == reason or (reason and found and found.startswith(reason))


@pytest.mark.parametrize("spec", ["heat", "heat2d"])
def test_a_signature_without_statistics_tells_the_shapes(spec):
    problem = Problem.from_file(spec)
    (entry,) = signature_of(problem, decide_constraints(problem)).inputs
    assert (entry.mean, entry.std, entry.gridded) == (0.0, 1.0, True)
    assert entry.waves >= 3


@pytest.mark.parametrize("place", ["grid", "uniform"])
def test_inputs_with_jumps_are_gridded_where_their_sensors_are(place):
    law = "law: piecewise_constant, cells: 4, low: 0, high: 1"
    text = HEAT.replace("place: grid", f"place: {place}").replace(
        "law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]", law
    )
    problem = Problem.from_yaml(text)
    (entry,) = signature_of(problem, decide_constraints(problem)).inputs
    assert entry.gridded == (place == "grid")


class Gridded(Backbone):
    """Answers on grids alone."""

    field, scattered = GRID_FIELD, False

    def forward(self, inputs, queries):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("constraints", "physics", "scattered", "reason"),
    [
        ("auto", True, False, None),
        ("soft", True, False, "axis 'x' is not periodic"),
        ("soft", False, False, None),
        ("auto", False, True, "on grids alone, and the data are scattered"),
    ],
)
def test_grids_need_periods_for_equations_and_data_on_grids(
    constraints, physics, scattered, reason
):
    preset = Preset(Gridded, Sizes())
    found = obstacle(preset, shapes(constraints), physics=physics, scattered=scattered)
    assert found == reason or (reason and found and found.endswith(reason))


def test_those_that_can_are_named_with_their_preset(monkeypatch):
    table = {
        "walled": {"default": Preset(Picky, Sizes()), "open": Preset(Gridded, Sizes())},
        "gridded": {"default": Preset(Gridded, Sizes())},
        "ended": {"default": Preset(Picky, Sizes(walls=True))},
    }
    monkeypatch.setattr("piop.models.registry.BACKBONES", table)
    config = TrainingConfig(BudgetConfig(steps=1), backbone="ended")
    problem = Problem.from_file("heat")
    assert able_backbones(problem, config, None, False) == [
        "walled (--set preset=open)",
        "gridded",
    ]
    with pytest.raises(UsageError, match=r"'ended' cannot .* these can: walled .*, gridded"):
        require_backbone(problem, config, None, False)
    with pytest.raises(UsageError, match="no backbone can"):
        require_backbone(problem, replace(config), None, True)


def test_rounded_products_take_no_differences_on_a_grid(monkeypatch):
    table = {"gridded": {"default": Preset(Gridded, Sizes())}}
    monkeypatch.setattr("piop.models.registry.BACKBONES", table)
    machine = MachineConfig(device="cuda", precision="tf32")
    config = TrainingConfig(BudgetConfig(steps=1), machine=machine, backbone="gridded")
    with pytest.raises(UsageError, match="tf32 rounds the differences"):
        require_backbone(Problem.from_file("heat"), config, None, False)
    data = replace(config, physics=False)
    require_backbone(Problem.from_file("heat"), data, None, False)


def test_inputs_that_are_all_hidden_are_refused():
    text = HEAT.replace("law: fourier", "hidden: true, law: fourier")
    text = text.replace("sensors: {u0: {count: 8, place: grid}}\n", "")
    problem, config = Problem.from_yaml(text), TrainingConfig(BudgetConfig(steps=1))
    assert problem.inputs
    with pytest.raises(UsageError, match=r"inputs: all are hidden"):
        require_choices(problem, config, data=False)
    require_choices(Problem.from_yaml(HEAT), config, data=False)
    require_choices(Problem.from_file("poisson_lshape"), config, data=False)


@pytest.mark.parametrize(
    ("equation", "input_std", "precision", "message"),
    [
        ("1e60*dxx(u)", 1.0, "float32", r"equation 1: numbers of size 1e.60, .*float64"),
        ("1e60*dxx(u)", 1.0, "float64", None),
        ("0.1*dxx(u)", 1e60, "float32", r"input 'u0': numbers of size 1e.60,"),
        ("0.1*dxx(u)", math.inf, "float64", "input 'u0': numbers of size inf,"),
        ("0.1*dxx(u)", math.nan, "float32", "input 'u0': numbers of size nan,"),
    ],
)
def test_numbers_beyond_the_precision_are_refused(equation, input_std, precision, message):
    problem = Problem.from_yaml(HEAT.replace("0.05*dxx(u)", equation))
    config = TrainingConfig(BudgetConfig(steps=1), machine=MachineConfig(precision=precision))
    statistics = Statistics({"u0": 0.0}, {"u0": input_std}, (0.0,), (1.0,), (1.0,))
    refused = pytest.raises(UsageError, match=message) if message else nullcontext()
    with refused:
        require_range(problem, config, statistics)
