"""An exported graph gives the predictions of its run, on sizes that were not used to capture it."""

import pytest
import torch

from piop.export.check import ExportCases, compare
from piop.export.export import capture, fixed_decisions, sensor_positions
from piop.export.formats import FORMATS
from piop.export.prediction import Prediction
from piop.export.sensors import FixedSensors
from piop.generation import generate
from piop.models import BACKBONES
from piop.problem import Problem
from piop.run.prediction import needed_functions
from piop.training.loss.varying_propagation import VaryingPropagation
from tests.export.conftest import TINY
from tests.small_heat import HEAT
from tests.varying import example as varying

WAVES = """
piop: 1
name: coupled_waves
time: {t: [0, 1]}
space: {x: [0, 1]}
parameters: {c: {law: uniform, low: 0.5, high: 1}}
unknowns: [u, v]
inputs:
  u0:
    {of: [x], law: gaussian_random_field, tau: 5, alpha: 4, scale: 50000, modes: 4,
     boundary: {x: dirichlet}}
  g: {of: [t], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations:
  - d(u, t, 2) = c*dxx(u) - v
  - dt(v) = 0.1*dxx(v) + u
initial: {u: u0, dt(u): 0, v: 0}
boundary:
  x.min: [{dirichlet: {u: 0}}, {dirichlet: {v: t*g}}]
  x.max: [{dirichlet: {u: 0}}, {neumann: {v: 0}}]
sensors: {u0: {count: 8, place: grid}, g: {count: 6, place: grid}}
save: {t: 5, x: 9}
"""
"""Second order in time, two unknowns, hard and soft conditions, a scalar and two functions."""

STEADY = """
piop: 1
name: small_poisson
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  f:
    {of: [x, y], law: gaussian_random_field, scale: 1e6, tau: 6, alpha: 4, modes: 2,
     boundary: {x: dirichlet, y: dirichlet}}
equations: [-lap(u) = f]
boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}}
sensors: {f: {count: [4, 4], place: grid}}
save: {x: 5, y: 5}
"""

BURGERS = """
piop: 1
name: small_burgers
time: {t: [0, 1]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) + u*dx(u) = 0.05*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: uniform}}
save: {t: 5, x: 16}
"""

ORDINARY = """
piop: 1
name: small_ode
time: {t: [0, 1]}
parameters: {a: {law: uniform, low: 1, high: 2}}
unknowns: [u, v]
inputs: {u0: {law: uniform, low: 0.5, high: 2}}
equations: [dt(u) = a*u - u*v, dt(v) = u*v - v]
initial: {u: u0, v: 1}
save: {t: 9}
"""

NO_INPUT = """
piop: 1
name: small_l
space: {x: [-1, 1], y: [-1, 1]}
domain: {polygon: [[0, 0], [0, -1], [1, -1], [1, 1], [-1, 1], [-1, 0]]}
unknowns: [u]
equations: [-lap(u) = 1]
boundary: {rest: {dirichlet: {u: 0}}}
save: {x: 9, y: 9}
"""

FORCED = """
piop: 1
name: small_helmholtz
space: {x: [0, 2], y: [0, 1]}
unknowns: [u]
inputs:
  f:
    {of: [x, y], law: gaussian_random_field, scale: 1e4, tau: 6, alpha: 4, modes: 2,
     boundary: {y: dirichlet}}
equations: [3*u - lap(u) = f]
boundary: {x: periodic, y: {dirichlet: {u: 0}}}
sensors: {f: {count: [6, 6], place: grid}}
save: {x: 6, y: 5}
"""


SOURCE = """
piop: 1
name: small_source
space: {x: [0, 2]}
unknowns: [u]
inputs:
  g: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1], hidden: true}
  f: {of: [x], expression: exp(g)}
equations: [u - dxx(u) = f]
boundary: {x: periodic}
sensors: {f: {count: 8, place: grid}}
save: {x: 16}
"""
"""Its input has no spectrum, so that the network sees the harmonics of the sensors themselves."""


def agreement(run, name):
    captured = capture(run, FORMATS[name])

    def evaluate(tensors):
        with torch.no_grad():
            return captured.graph(*tensors)

    return compare(run.model, captured.prediction, captured.cases, evaluate)


def test_conditions_of_all_kinds_and_inputs_of_all_kinds(make_run):
    run = make_run(WAVES + TINY)
    hard = run.model.constraints
    assert hard.lift_orders == (2, 1)
    assert any(hard.hard_faces)
    assert hard.soft_faces
    assert agreement(run, "pt2").difference < 1e-9
    inputs = capture(run, FORMATS["pt2"]).prediction.inputs
    assert {a.name: a.meaning for a in inputs}["c"] == "the scalar c"


def test_a_source_that_is_solved_for_between_walls(make_run):
    run = make_run(STEADY + TINY)
    assert run.model.known.derived is not None
    assert agreement(run, "onnx").difference < 1e-9


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_coefficients_that_vary_in_space(make_run, kind):
    """Modes are complex here: the two unknowns turn into each other."""
    well = "cos(2*pi*x)"
    rows = f"dt(p) = -0.1*dxx(q) + {well}*q", f"dt(q) = 0.1*dxx(p) - {well}*p"
    run = make_run(varying(*rows, unknowns="p, q").to_yaml() + TINY)
    assert isinstance(run.model.known.derived, VaryingPropagation)
    assert agreement(run, kind).difference < 1e-7


@pytest.mark.parametrize("linear_part", ["exact", "learned"])
def test_time_windows(make_run, linear_part):
    run = make_run(BURGERS + TINY, settings={"windows": 2, "linear_part": linear_part})
    assert run.model.rollout.windows.count == 2
    assert agreement(run, "onnx").difference < 1e-9


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_sample_has_its_own_sensors(make_run, precision):
    run = make_run(SOURCE + TINY, precision=precision)
    assert agreement(run, "pt2").difference < (1e-5 if precision == "float32" else 1e-9)


@pytest.mark.parametrize("backbone", ["pit", "deeponet"])
def test_operators_of_data_alone(make_run, tmp_path, backbone):
    problem = Problem.from_yaml(HEAT)
    generate(problem, 4, tmp_path / "heat.nc")
    run = make_run(HEAT + TINY, backbone=backbone, data=tmp_path / "heat.nc", physics=False)
    assert agreement(run, "pt2").difference < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
@pytest.mark.parametrize(
    "text", [WAVES, STEADY, BURGERS, ORDINARY, NO_INPUT, FORCED], ids=lambda text: text.split()[3]
)
def test_every_kind_of_problem(make_run, tmp_path, text, kind):
    run = make_run(text + TINY)
    found = run.export(tmp_path / f"f.{kind}")
    assert found.agreement.difference < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
@pytest.mark.parametrize("name", BACKBONES)
def test_every_network_by_default(make_run, tmp_path, name, kind):
    run = make_run(HEAT, backbone=name, precision="float32")
    assert run.export(tmp_path / f"f.{kind}").agreement.difference < 1e-5


def test_rounding_does_not_count_as_waves(make_run):
    """An exported graph propagates the waves that the input has: one."""
    run = make_run(HEAT + TINY, precision="float32")
    derived, positions = run.model.known.derived, sensor_positions(run.problem, None)
    cases = ExportCases(run.problem, run.statistics, positions, torch.float32)
    sensors = FixedSensors(run.problem, needed_functions(run.model), positions)
    with fixed_decisions(Prediction(run.problem, run.model, sensors), cases):
        assert len(derived.kept) == 1
    assert derived.kept is None


@pytest.mark.slow
def test_a_network_on_a_grid(make_run):
    run = make_run(HEAT, backbone="fno", settings={"width": 4, "blocks": 1, "projection": 4})
    assert run.model.operator.gridded
    assert agreement(run, "onnx").difference < 1e-9
