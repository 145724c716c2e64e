import torch

from piop.datasets import Dataset
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature
from piop.models.core.harmonic_fit import HarmonicFit
from piop.problem import Problem
from piop.sampling import Draws, observe, reconstruct, sample_inputs
from piop.training.batches.input_grid import evaluate_on_grids, gridded_inputs, input_grids


def drawn(problem, count=3):
    draws = Draws(0, 0, torch.arange(count))
    functions = sample_inputs(problem, draws)
    return functions, observe(functions, problem, draws)


def test_values_on_the_grid_are_those_of_the_function(heat):
    functions, seen = drawn(heat)
    found = evaluate_on_grids(input_grids(heat), functions, seen)["u0"]
    assert found.points.shape == (3, 16, 1)
    assert torch.allclose(found.values[..., 0], functions["u0"](found.points))


def test_grids_leave_the_right_end_of_periodic_axes_out(heat):
    (axis,) = input_grids(heat)["u0"]
    assert axis[0] == 0
    assert axis[-1] == 2 - 2 / 16


def test_enough_sensors_anywhere_give_the_same_view(heat):
    functions, _ = drawn(heat)
    points = torch.rand(3, 11, 1, dtype=torch.float64) * 2
    scattered = {"u0": FunctionSamples(points, functions["u0"](points)[..., None])}
    guess = {"u0": reconstruct(heat, heat.inputs[0], scattered["u0"])}
    one = evaluate_on_grids(input_grids(heat), functions, scattered)["u0"].values
    two = evaluate_on_grids(input_grids(heat), guess, scattered)["u0"].values
    assert torch.allclose(one, two, atol=1e-3)


def test_a_source_of_time_and_three_axes_is_drawn_and_fitted():
    problem = Problem(
        name="p",
        time={"t": [0, 1]},
        space={"x": [0, 1], "y": [0, 1], "z": [0, 1]},
        unknowns=["u"],
        inputs={
            "f": {
                "of": ["t", "x", "y", "z"],
                "law": "gaussian_random_field",
                "scale": 1e10,
                "tau": 7,
                "alpha": 9,
            }
        },
        equations=["dt(u) = 0.1*lap(u) + f"],
        initial={"u": "0"},
        boundary={"x": "periodic", "y": "periodic", "z": "periodic"},
    )
    functions, seen = drawn(problem, 1)
    found = evaluate_on_grids(input_grids(problem), functions, seen)["f"]
    axes = tuple(AxisSignature(name, 0.0, 1.0, name != "t") for name in "txyz")
    entry = InputSignature("f", tuple("txyz"), std=float(found.values.std()))
    fit = HarmonicFit(entry, axes).double()
    misfit = fit.basis(found.points) @ fit(found) - found.values / entry.std
    assert misfit.square().mean().sqrt() < 0.2, "harmonics up to 2 leave little of a smooth field"


def test_inputs_with_jumps_keep_their_sensors():
    jumps = Problem(
        name="p",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 0, "high": 1}},
        equations=["dt(u) = 0.1*dxx(u)"],
        initial={"u": "u0"},
        boundary={"x": "periodic"},
    )
    functions, seen = drawn(jumps)
    assert input_grids(jumps) == {}
    assert evaluate_on_grids({}, functions, seen)["u0"] is seen["u0"]


def test_inputs_that_are_numbers_lie_on_no_grid():
    problem = Problem.from_file("navier_stokes_mix")
    seen = {
        i.name: FunctionSamples(torch.zeros(3, 1, len(i.of)), torch.ones(3, 1, 1))
        for i in problem.visible_inputs
    }
    assert seen["nu"].points.shape == (3, 1, 0)
    data = Dataset(seen, {}, {"w": torch.ones(3, 4)}, torch.zeros(3, 4, 3))
    assert "nu" not in gridded_inputs(problem, False, data)
