"""Means and deviations against those of draws."""

import math

import numpy as np
import pytest
import sympy
import torch

from piop.errors import NotSupportedError
from piop.sampling import sample_inputs
from piop.sampling.distributions import input_sampler
from piop.spec import distributions as laws

X = np.arange(8) / 8


def moments(problem):
    return {item.name: input_sampler(problem, item).moments() for item in problem.inputs}


@pytest.mark.parametrize(
    ("law", "of"),
    [
        (laws.FourierSeries(5, (0.0, 2.0), (0, 3)), ["x"]),
        (laws.FourierSeries(5, (0.0, 2.0), (0, 1), (0.0, 1.0)), ["x", "y"]),
        (laws.GaussianRandomField(tau=3.0, alpha=2.0, scale=50.0, mean=1.5), ["x"]),
        (
            laws.GaussianRandomField(
                tau=3.0, alpha=3.0, scale=1e3, mean=-1.0, boundary={"x": "dirichlet"}, modes=8
            ),
            ["x", "y"],
        ),
        (laws.PiecewiseConstant((3,), -1.0, 4.0), ["x"]),
        (laws.Uniform(-1.0, 4.0), []),
        (laws.LogUniform(1e-2, 10.0), []),
        (laws.Integer(-1, 3), []),
        (laws.Normal(2.0, 0.3), []),
    ],
)
def test_statistics_are_those_of_draws_over_the_domain(law, of, item, problem, axis, many):
    p = problem(item("a", of, law), space=[axis("x"), axis("y", -1.0, 1.0, periodic=False)])
    mean, std = moments(p)["a"]
    ticks = {
        "x": (torch.arange(32).double() + 0.5) / 32,
        "y": (torch.arange(32).double() - 15.5) / 16,
    }
    values = sample_inputs(p, many(4000))["a"].on_grid([ticks[n] for n in of])
    per_sample = values.reshape(4000, -1).mean(1)
    sigma = float(per_sample.std()) / 4000**0.5
    assert mean == pytest.approx(float(values.mean()), abs=5 * sigma + 1e-9)
    assert std == pytest.approx(float(values.std()), rel=0.05)


@pytest.mark.parametrize(
    ("low", "high", "mean", "std"),
    [
        (1.0, 1.0 + 1e-7, 1.0, 1e-7 / math.sqrt(12)),
        (2.0, 2.002, 2.001, 0.002 / math.sqrt(12)),
        (1.0, math.e, math.e - 1, math.sqrt((math.e**2 - 1) / 2 - (math.e - 1) ** 2)),
    ],
)
def test_moments_of_a_logarithm_that_is_uniform(item, problem, low, high, mean, std):
    one = item("c", [], laws.LogUniform(low, high))
    found = input_sampler(problem(one), one).moments()
    assert found == pytest.approx((mean, std), rel=1e-4)


def test_what_never_varies_is_interpolated_with_unit_deviation(item, problem):
    p = problem(item("a", [], laws.Constant(3.0)), item("b", [], laws.LogUniform(2.0, 2.0)))
    assert moments(p) == {"a": (3.0, 0.0), "b": (2.0, 0.0)}
    constant = item("a", ["x"], expression=sympy.Integer(3))
    prior = input_sampler(problem(constant), constant).prior()
    assert prior.moments() == pytest.approx((3.0, 1.0), rel=1e-3)


def test_expressions_and_files_are_estimated(item, problem, tmp_path):
    file = tmp_path / "f.npz"
    values = np.sin(2 * np.pi * X) + np.arange(50.0)[:, None]
    np.savez(file, x=X, b=values)
    c = sympy.Symbol("c", real=True)
    p = problem(
        item("a", ["x"], expression=3 * c),
        item("b", ["x"], laws.FromFile("f.npz", None, file)),
        item("c", [], laws.Normal(2.0, 0.1), hidden=True),
    )
    found = moments(p)
    assert found["a"] == pytest.approx((6.0, 0.3), rel=0.1)
    assert found["b"] == pytest.approx((24.5, math.sqrt(0.5 + (2500 - 1) / 12)), rel=0.02)
    assert found["c"] == (2.0, 0.1)
    assert found == moments(p)


def test_a_past_has_no_statistics(item, problem):
    with pytest.raises(NotSupportedError, match="history"):
        moments(problem(item("a", ["x"], laws.History(1.0))))
