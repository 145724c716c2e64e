import pytest
import torch

from piop.errors import UsageError
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.residual import compile_residual
from piop.residual.attention.online import online_totals
from piop.training.batches.input_grid import highest_wavenumber
from piop.training.build import build_model, homogeneous_axes, signature_of
from piop.training.loss.statistics import distribution_statistics


def problem(**changes):
    words = {
        "name": "p",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {
            "u0": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 2,
                "amplitude": [-1, 1],
                "wavenumber": [1, 4],
            }
        },
        "equations": ["dt(u) = 0.1*dxx(u)"],
        "initial": {"u": "u0"},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{**words, **changes})


WALLS = {"x": "periodic", "y.max": {"dirichlet": {"u": 0}}}
PLANE = {
    "space": {"x": [0, 1], "y": [0, 1]},
    "equations": ["dt(u) = 0.1*lap(u)"],
    "inputs": {"u0": {"of": ["x", "y"], "law": "gaussian_random_field", "tau": 5, "alpha": 4}},
    "boundary": {**WALLS, "y.min": {"dirichlet": {"u": 0}}},
}


@pytest.mark.parametrize(
    ("changes", "axes"),
    [
        ({}, ("x",)),
        ({"equations": ["dt(u) = 0.1*dxx(u) + sin(2*pi*x)"]}, ()),
        ({"initial": {"u": "u0*cos(2*pi*x)"}}, ()),
        ({"equations": ["dt(u) = 0.1*dxx(u) + t"]}, ("x",)),
        (PLANE, ("x",)),
        (PLANE | {"boundary": {**WALLS, "y.min": {"dirichlet": {"u": "sin(2*pi*x)"}}}}, ()),
        (PLANE | {"boundary": {**WALLS, "y.min": "dy(u) + u = cos(2*pi*x)"}}, ()),
    ],
)
def test_an_axis_is_homogeneous_unless_its_coordinate_is_named(changes, axes):
    found = problem(**changes)
    assert homogeneous_axes(found, decide_constraints(found)) == axes


def test_no_axis_of_unknown_equations_is_homogeneous():
    era5 = Problem.from_file("era5")
    assert homogeneous_axes(era5, decide_constraints(era5)) == ()


def test_an_axis_whose_period_is_a_soft_constraint_is_not_homogeneous():
    found = problem()
    assert homogeneous_axes(found, decide_constraints(found, "soft")) == ()


def test_the_highest_wave_of_a_series_is_its_largest_wavenumber():
    found = problem()
    assert highest_wavenumber(found, found.inputs[0]) == 4


@pytest.mark.parametrize("unseen", [1e-6, 1e-4])
def test_the_highest_wave_of_a_field_holds_nearly_all_its_variance(unseen):
    field = {"of": ["x"], "law": "gaussian_random_field", "tau": 3.0, "alpha": 3.5}
    found = problem(inputs={"u0": field})
    reached = highest_wavenumber(found, found.inputs[0], unseen)
    k = torch.arange(-4000, 4001).double()
    variance = ((2 * torch.pi * k) ** 2 + 9) ** -3.5
    inside = [
        float(variance[k.abs() <= radius].sum() / variance.sum())
        for radius in (reached - 1, reached)
    ]
    assert inside[0] < 1 - unseen <= inside[1] + 1e-9


@pytest.mark.parametrize(
    ("name", "waves", "bulk"),
    # Wang's field: all but 5.6e-7 below k = 7 and all but 2.2e-5 below 4. The flow's vorticity
    # falls too slowly and meets the cap.
    [("burgers_wang", 7, 4), ("navier_stokes", 8, 8), ("heat2d", 8, 5)],
)
def test_shipped_fields_have_a_spectrum_whether_or_not_modes_are_stated(name, waves, bulk):
    found = Problem.from_file(name)
    statistics = distribution_statistics(found, compile_residual(found), seed=0)
    (entry,) = signature_of(found, decide_constraints(found), statistics).inputs
    assert (entry.waves, entry.bulk) == (waves, bulk)


def test_a_signature_tells_shapes_and_sizes(built):
    signature = signature_of(built.problem, built.model.constraints, built.statistics)
    assert [axis.name for axis in signature.coordinates] == ["t", "x"]
    assert [axis.periodic for axis in signature.coordinates] == [False, True]
    assert signature.time == 0
    assert signature.inputs[0].mean == built.statistics.input_mean["u0"]
    assert signature.inputs[0].std == built.statistics.input_std["u0"]


def test_the_same_seed_builds_the_same_weights(built):
    again = build_model(built.problem, built.statistics, built.config)
    mine, other = built.model.operator.state_dict(), again.operator.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_without_physics_and_data_there_is_nothing_to_draw(heat, builder):
    with pytest.raises(UsageError, match="there must be data"):
        builder(heat, physics=False)


def test_conditions_that_cannot_be_hard_are_a_wrong_argument(heat, builder):
    rough = {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 0, "high": 1}
    with pytest.raises(UsageError, match="hard is not possible"):
        builder(problem(inputs={"u0": rough}), constraints="hard")


def test_the_kernel_that_was_chosen_sums_the_attention_of_a_step(builder, heat, monkeypatch):
    calls = []

    def kernel(operands, program):
        calls.append(operands.query.shape)
        return online_totals(operands, program)

    plain = builder(heat)
    monkeypatch.setattr("piop.training.build.choose_kernel", lambda name, device: kernel)
    fused = builder(heat)
    batch = plain.draw(0, 0.0)
    assert not calls
    parts = [built.loss(batch)[0]["loss"] for built in (plain, fused)]
    assert calls
    torch.testing.assert_close(parts[0], parts[1], rtol=1e-10, atol=0)
