"""Warnings that held-out inputs do worse than the samples of the training."""

import math

import pytest

from piop.generation import generate
from piop.run import fit
from piop.run.training_gap import warn_of_gap

FITTED = [{"step": i, "data": 1.0} for i in range(95)] + [{"step": 95, "data": 1e-4}] * 5
"""A mean squared error that ends at 0.0001, so a relative error of 0.01."""


def test_errors_far_above_those_of_the_training_are_named():
    (found,) = warn_of_gap(FITTED, 0.05, {}, ())
    assert found.startswith("the error on held-out inputs (0.05) is 5 times that on the samples")
    assert "(0.01)" in found
    assert warn_of_gap(FITTED, 0.029, {}, ()) == []
    assert warn_of_gap(FITTED, math.nan, {}, ()) == []


def test_residuals_that_are_not_small_though_the_samples_are_fitted_are_named():
    residual = {"equation 1": 0.8, "equation 2": 0.8}
    (found,) = warn_of_gap(FITTED, 0.01, residual, (2.0, 10.0))
    assert found.startswith(
        "answers do not meet equation 1: its residual is 0.4 of the size of its"
    )
    assert warn_of_gap(FITTED, 0.01, {"equation 1": math.nan}, (1.0,)) == []


def test_trainings_without_data_have_no_samples_to_compare_with():
    assert warn_of_gap([{"step": 1, "residual": 1e-9}], 1.0, {"equation 1": 9.0}, (1.0,)) == []
    assert warn_of_gap([], 1.0, {}, ()) == []


@pytest.mark.parametrize("physics", [True, False])
def test_an_evaluation_warns_of_samples_learnt_by_heart(heat, tmp_path, physics):
    path = tmp_path / "few.nc"
    generate(heat, 6, path, seed=1)
    options = {"physics": physics, "samples": 8, "calibrate": 0, "device": "cpu", "width": 24}
    run = fit(heat, steps=200, out=tmp_path / "run", data=path, **options)
    warnings = run.folder.read_json("evaluation.json")["warnings"]
    assert any("times that on the samples it was trained on" in w for w in warnings) != physics
