"""Every distribution draws what it states, sample by sample, in any batch and precision."""

import math

import pytest
import torch

from piop.errors import NotSupportedError
from piop.sampling import Draws, observe, sample_inputs
from piop.sampling.distributions import SAMPLERS, input_sampler
from piop.spec import distributions as laws


@pytest.fixture
def everything(item, problem, axis):
    return problem(
        item("series", ["x"], laws.FourierSeries(3, (-1.0, 1.0), (1, 4))),
        item("field", ["x", "y"], laws.GaussianRandomField(tau=3.0, alpha=3.0, modes=5)),
        item("source", ["t", "x"], laws.GaussianRandomField(tau=3.0, alpha=3.0, modes=3)),
        item("cells", ["x", "y"], laws.PiecewiseConstant((3, 2), 1.0, 5.0)),
        item("n", [], laws.Normal(1.0, 0.1)),
        item("nu", [], laws.LogUniform(1e-3, 1e-1)),
        item("c", [], laws.Uniform(-1.0, 3.0)),
        item("k", [], laws.Constant(4.0)),
        space=[axis("x"), axis("y", -1.0, 1.0, periodic=False)],
    )


def coordinates(everything, name, count, batch=1):
    by_name = {a.name: a for a in everything.coordinates}
    of = next(i for i in everything.inputs if i.name == name).of
    u = torch.rand(batch, count, len(of), generator=torch.Generator().manual_seed(1)).double()
    for column, axis_name in enumerate(of):
        a = by_name[axis_name]
        u[..., column] = a.low + (a.high - a.low) * u[..., column]
    return u


def test_every_input_is_drawn_in_order_of_the_problem(everything, many):
    drawn = sample_inputs(everything, many(4))
    assert list(drawn) == [i.name for i in everything.inputs]
    for one in everything.inputs:
        assert drawn[one.name].batch == 4
        assert drawn[one.name].dimension == len(one.of)


def test_a_sample_is_the_same_in_any_batch(everything, many):
    whole = sample_inputs(everything, many(10))
    part = sample_inputs(everything, Draws(0, 0, torch.tensor([7, 2])))
    for name, f in whole.items():
        points = coordinates(everything, name, 5)
        torch.testing.assert_close(f(points)[[7, 2]], part[name](points), rtol=1e-12, atol=1e-12)


def test_single_precision_rounds_the_same_functions(everything, many):
    double, single = (sample_inputs(everything, many(3), d) for d in (torch.float64, torch.float32))
    for name, f in single.items():
        points = coordinates(everything, name, 5)
        assert f(points.float()).dtype == torch.float32
        torch.testing.assert_close(
            f(points.float()).double(), double[name](points), rtol=1e-4, atol=1e-4
        )


def test_whole_numbers_are_drawn_with_both_ends_and_evenly(many, item, problem):
    law = laws.Integer(-1, 2)
    numbers = sample_inputs(problem(item("k", [], law)), many(4000))["k"].on_grid(())
    values, counts = numbers.unique(return_counts=True)
    assert values.tolist() == [-1, 0, 1, 2]
    assert (counts - 1000).abs().max() < 5 * (4000 * 0.25 * 0.75) ** 0.5


def test_inputs_of_one_problem_are_independent_of_each_other(many, item, problem):
    law = laws.GaussianRandomField(tau=3.0, alpha=3.0, modes=3)
    drawn = sample_inputs(problem(item("a", ["x"], law), item("b", ["x"], law)), many(2000))
    a, b = (drawn[n](torch.tensor([[[0.3]]]).double())[:, 0] for n in "ab")
    assert abs(float(torch.corrcoef(torch.stack((a, b)))[0, 1])) < 5 / 2000**0.5


def test_cells_and_numbers_have_the_stated_range_and_moments(everything, many):
    drawn = sample_inputs(everything, many(5000))
    cells = drawn["cells"].values
    assert cells.shape == (5000, 3, 2)
    assert cells.min() > 1.0 and cells.max() < 5.0
    assert float(cells.mean()) == pytest.approx(3.0, abs=5 * 4 / math.sqrt(12 * 30000))
    nu = drawn["nu"].values
    assert nu.min() > 1e-3 and nu.max() < 1e-1
    assert float(nu.log().mean()) == pytest.approx(math.log(1e-2), abs=0.1)
    c = drawn["c"].values
    assert float(c.mean()) == pytest.approx(1.0, abs=5 * 4 / math.sqrt(12 * 5000))
    assert float(drawn["n"].values.std()) == pytest.approx(0.1, rel=0.05)
    assert drawn["k"].values.unique().tolist() == [4.0]


def test_a_source_of_time_is_periodic_in_space_alone(everything, many):
    f = sample_inputs(everything, many(3))["source"]
    ends = torch.tensor([[[0.3, 0.0], [0.3, 1.0], [0.0, 0.2], [2.0, 0.2]]]).double()
    left, right, start, end = f(ends).unbind(1)
    torch.testing.assert_close(left, right)
    assert (start - end).abs().min() > 1e-3
    assert f.derivative(ends, (1, 0))[:, 2:].abs().max() < 1e-10


def test_every_distribution_of_the_spec_has_a_sampler():
    assert set(SAMPLERS) == set(laws.DISTRIBUTIONS.values())


def test_history_is_not_drawn(problem, item, many):
    past = item("u0", ["x"], laws.History(1.0))
    assert sample_inputs(problem(past), many(2)) == {}
    with pytest.raises(
        NotSupportedError, match=r"inputs\.u0: its distribution is history, so it cannot be"
    ):
        input_sampler(problem(past), past).draw(many(2), {})
    with pytest.raises(NotSupportedError, match=r"inputs\.u0: a history is observed in data"):
        observe({}, problem(past), many(2))
