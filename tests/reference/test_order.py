"""ETDRK4 converges at order four, with real symbols, complex ones and coupled ones."""

import math

import pytest
import torch

from piop.problem import Problem
from piop.reference.fourier.time_stepping import Discretisation
from piop.reference.input_values import Sources
from piop.sampling import Draws, sample_inputs

from .cases import orders, periodic, random_waves

TAU = {"x": [0, "2*pi"]}
WAVES = random_waves(2, [(0, 2 * math.pi)], amplitude=0.3, seed=3)

CASES = {  # equation, fewest steps: where the slope has settled (stiff modes delay it)
    "burgers (real symbol)": ("dt(u) + u*dx(u) = 0.05*dxx(u)", 40),
    "kdv (imaginary symbol)": ("dt(u) + 6*u*dx(u) + dxxx(u) = 0", 320),
    "burgers and advection (complex symbol)": ("dt(u) + 3*dx(u) + u*dx(u) = 0.05*dxx(u)", 40),
    "kuramoto-sivashinsky (growing modes)": ("dt(u) + u*dx(u) + dxx(u) + 0.1*dxxxx(u) = 0", 640),
    "time in the equation": ("dt(u) + u*dx(u) = 0.05*dxx(u) + sin(3*t)*cos(x)*u", 40),
}


@pytest.mark.parametrize("name", CASES)
def test_order_four(name):
    equation, n = CASES[name]
    problem = periodic(equation, space=TAU)
    found, errors = orders(problem, {"u0": WAVES}, (32,), [n, 2 * n], 8 * n)
    assert found[0] > 3.8, (found, errors)
    assert errors[-1] < 1e-6


def test_order_four_with_coupled_linear_part():
    problem = periodic(
        ["dt(u) = dx(v) + 0.1*dxx(u) - u**2", "dt(v) = dx(u) - u*v + 0.05*dxx(v)"], ("u", "v"), TAU
    )
    functions = {"u0": WAVES, "v0": random_waves(2, [(0, 2 * math.pi)], seed=8)}
    found, _ = orders(problem, functions, (32,), [40, 80], 320)
    assert min(found) > 3.8


VARIABLE_SPEED = "d(u, t, 2) = (1 + sin(x)/2)**2*dxx(u)"


def test_order_four_of_waves_whose_speed_varies():
    problem = periodic(VARIABLE_SPEED, space=TAU, initial={"u": "u0", "dt(u)": 0})
    found, _ = orders(problem, {"u0": WAVES}, (32,), [20, 40], 160)
    assert min(found) > 3.8


def test_only_what_drives_a_rate_by_its_own_second_derivative_is_stiff():
    """c² u_xx in the row of dt(u) turns a wave k at the rate c k; dt(u_xx) would damp it by k²."""

    def order(equation):
        problem = periodic(equation, space=TAU, initial={"u": "sin(x)", "dt(u)": 0})
        return Discretisation(Sources(problem, {}, torch.device("cpu"))).order_in_time

    assert order(VARIABLE_SPEED) == 3.5
    assert order(VARIABLE_SPEED + " + (2 + sin(x))*dt(dxx(u))") == 2.0


def test_order_four_with_input_in_time():
    source = random_waves(2, [(0, 1.0), (0, 2 * math.pi)], seed=5)
    problem = periodic(
        "dt(u) + u*dx(u) = 0.05*dxx(u) + f",
        space=TAU,
        inputs={
            "f": {
                "of": ["t", "x"],
                "law": "fourier_series",
                "terms": 1,
                "amplitude": [0, 1],
                "wavenumber": [1, 1],
            }
        },
    )
    found, _ = orders(problem, {"u0": WAVES, "f": source}, (32,), [20, 40], 160)
    assert min(found) > 3.8


def test_a_vorticity_moved_by_its_stream_function_is_not_stiff():
    """Fluxes of ψ hold two derivatives, and ψ has two less than the vorticity: one in all."""
    problem = Problem.from_file("navier_stokes")
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(1)))
    sources = Sources(problem, functions, torch.device("cpu"))
    assert Discretisation(sources).order_in_time == 3.5
