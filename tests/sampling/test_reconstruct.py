"""From sensors back to functions: exact where they can be, else the best linear guess."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import sympy
import torch

from piop.errors import DataError, NotSupportedError
from piop.fields import FunctionSamples
from piop.sampling import observe, place_sensors, reconstruct, sample_inputs
from piop.sampling.distributions import input_sampler
from piop.sampling.functions import ProductFunction
from piop.sampling.kriging import covariance, krige
from piop.spec import distributions as laws

from .expected_error import expected_reconstruction_error, posterior_variance, variance_at

SERIES = laws.FourierSeries(10, (-0.5, 0.5), (1, 3))
FIELD = laws.GaussianRandomField(tau=5.0, alpha=3.0, scale=1e4)


def relative(found, exact, axes):
    a, b = found.on_grid(axes), exact.on_grid(axes)
    return ((a - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1)).double()


def seen(p, functions, draws, dtype=torch.float64):
    return observe(functions, p, draws, dtype)["a"]


TICKS = [torch.arange(200).double() / 200]


@pytest.mark.parametrize("place", ["uniform", "grid", "latin_hypercube", "sobol"])
def test_few_waves_are_found_without_error_by_enough_sensors(place, item, problem, many):
    p = problem(item("a", ["x"], SERIES, place, (24,)))
    f = sample_inputs(p, many(8))
    found = reconstruct(p, p.inputs[0], seen(p, f, many(8)))
    assert isinstance(found, ProductFunction)
    assert relative(found, f["a"], TICKS).max() < 1e-8
    for order in (1, 2, 3):
        points = torch.rand(8, 5, 1).double()
        exact = f["a"].derivative(points, (order,))
        error = (found.derivative(points, (order,)) - exact).abs().max()
        assert error < 1e-8 * exact.abs().max()


def test_phases_of_part_of_a_turn_are_found_too(item, problem, many):
    law = laws.FourierSeries(4, (0.5, 1.0), (0, 3), (0.0, 1.0))
    p = problem(item("a", ["x"], law, shape=(20,)))
    f = sample_inputs(p, many(8))
    assert relative(reconstruct(p, p.inputs[0], seen(p, f, many(8))), f["a"], TICKS).max() < 1e-8


def test_a_field_of_few_modes_in_2d_is_found_without_error(item, problem, axis, many):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=3)
    p = problem(
        item("a", ["x", "y"], law, shape=(150,)), space=[axis("x"), axis("y", periodic=False)]
    )
    f = sample_inputs(p, many(3))
    axes = [torch.linspace(0, 1, 9).double()] * 2
    assert relative(reconstruct(p, p.inputs[0], seen(p, f, many(3))), f["a"], axes).max() < 1e-8


def test_the_error_falls_with_sensors_and_is_the_expected_one(item, problem, many):
    errors = []
    for count in (8, 16, 32, 64):
        p = problem(item("a", ["x"], FIELD, "uniform", (count,)))
        one, draws = p.inputs[0], many(400)
        f = sample_inputs(p, draws)["a"]
        points = place_sensors(p, one, draws)
        found = reconstruct(p, one, FunctionSamples(points, f(points)[..., None]))
        difference, exact = found.on_grid(TICKS) - f.on_grid(TICKS), f.on_grid(TICKS)
        measured = float(((difference**2).mean() / (exact**2).mean()).sqrt())
        expected = float((expected_reconstruction_error(p, one, points) ** 2).mean().sqrt())
        assert measured == pytest.approx(expected, rel=0.3)
        errors.append(measured)
    assert all(b < 0.6 * a for a, b in pairwise(errors))


def test_it_beats_broken_lines_through_the_same_sensors(item, problem, many):
    p = problem(item("a", ["x"], FIELD, "uniform", (16,)))
    f = sample_inputs(p, many(100))
    samples = seen(p, f, many(100))
    ours = relative(reconstruct(p, p.inputs[0], samples), f["a"], TICKS)
    lines = []
    for points, values in zip(samples.points[..., 0], samples.values[..., 0], strict=True):
        lines.append(np.interp(TICKS[0], points.numpy(), values.numpy(), period=1.0))
    exact = f["a"].on_grid(TICKS)
    naive = (torch.tensor(np.stack(lines)) - exact).norm(dim=1) / exact.norm(dim=1)
    assert ours.median() < 0.5 * naive.median()
    assert (ours < naive).double().mean() > 0.85


def test_no_other_linear_weights_do_better_on_average(item, problem, many):
    # The definition of kriging, checked on draws: perturb the weights, and the error grows.
    p = problem(item("a", ["x"], FIELD, "grid", (6,)))
    one, draws = p.inputs[0], many(20000)
    f = sample_inputs(p, draws)["a"]
    points, at = place_sensors(p, one, draws)[:1], torch.tensor([[[0.07]]]).double()
    prior = input_sampler(p, one).prior()
    weights = torch.linalg.solve(covariance(prior, points, points), covariance(prior, points, at))
    values, exact = f(points), f(at)[:, 0]

    def error(w):
        return float(((values @ w - exact) ** 2).mean())

    best = weights[0, :, 0]
    for i in range(6):
        for step in (-0.05, 0.05):
            assert error(best + step * torch.eye(6).double()[i]) > error(best)
    posterior = float(posterior_variance(prior, points, at))
    assert error(best) == pytest.approx(posterior, rel=0.05)


def test_masked_sensors_count_for_nothing(item, problem, many):
    for law in (SERIES, FIELD):
        p = problem(item("a", ["x"], law, shape=(40,)))
        one = p.inputs[0]
        samples = seen(p, sample_inputs(p, many(3)), many(3))
        mask = torch.ones(3, 40, dtype=torch.bool)
        mask[0, 25:] = mask[1, ::2] = False
        spoiled = FunctionSamples(
            torch.where(mask[..., None], samples.points, torch.nan),
            torch.where(mask[..., None], samples.values, 1e9),
            mask,
        )
        whole = reconstruct(p, one, spoiled)
        for i in range(3):
            kept = FunctionSamples(
                samples.points[i : i + 1, mask[i]], samples.values[i : i + 1, mask[i]]
            )
            alone = reconstruct(p, one, kept)
            torch.testing.assert_close(
                whole.on_grid(TICKS)[i], alone.on_grid(TICKS)[0], atol=1e-5, rtol=1e-5
            )


def test_with_no_real_sensor_the_mean_of_the_law_is_left(item, problem, many):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, mean=2.5)
    p = problem(item("a", ["x"], law, shape=(4,)))
    none = torch.zeros(1, 4, dtype=torch.bool)
    found = reconstruct(
        p, p.inputs[0], FunctionSamples(torch.rand(1, 4, 1), torch.rand(1, 4, 1), none)
    )
    assert found.on_grid(TICKS).unique().tolist() == [2.5]


def test_coinciding_sensors_do_no_harm(item, problem, many):
    p = problem(item("a", ["x"], FIELD, shape=(32,)))
    f = sample_inputs(p, many(2))
    samples = seen(p, f, many(2))
    twice = FunctionSamples(samples.points.repeat(1, 2, 1), samples.values.repeat(1, 2, 1))
    once, again = (reconstruct(p, p.inputs[0], s).on_grid(TICKS) for s in (samples, twice))
    torch.testing.assert_close(once, again, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("count", [10, 30])  # fewer points than functions, and more
def test_either_form_of_the_system_solves_the_formula(count, item, problem, many, monkeypatch):
    monkeypatch.setattr("piop.sampling.kriging.NUGGET", 1e-3)
    law = laws.FourierSeries(4, (0.5, 1.0), (0, 8), (0.0, 2.0))  # 17 functions with a mean
    p = problem(item("a", ["x"], law, shape=(count,)))
    samples = seen(p, sample_inputs(p, many(2)), many(2))
    prior, values = input_sampler(p, p.inputs[0]).prior(), samples.values[..., 0] + 0.1
    found = krige(prior, samples.points, values, None)
    design, s = prior.bases[0].table(samples.points[..., 0]), prior.variance.diag()
    gram = design @ s @ design.mT
    level = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    rest = (values - design @ prior.mean)[..., None]
    weights = torch.linalg.solve(gram + 1e-3 * level * torch.eye(count).double(), rest)
    slow = prior.mean + (s @ design.mT @ weights)[..., 0]
    torch.testing.assert_close(found.coefficients, slow, atol=1e-10, rtol=1e-8)


def test_covariance_over_frequencies_is_that_over_functions(item, problem, axis):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=3)
    space = [axis("x"), axis("y", periodic=False), axis("z")]
    p = problem(item("a", ["x", "y", "z"], law), space=space)
    prior = input_sampler(p, p.inputs[0]).prior()
    x, y = torch.rand(2, 5, 3).double(), torch.rand(2, 4, 3).double()

    def design(points):
        tables = [b.table(c) for b, c in zip(prior.bases, points.unbind(-1), strict=True)]
        return torch.einsum("bni,bnj,bnk->bnijk", *tables).flatten(2)

    slow = (design(x) * prior.variance.flatten()) @ design(y).mT
    torch.testing.assert_close(covariance(prior, x, y), slow)
    torch.testing.assert_close(
        variance_at(prior, x[:1])[0], covariance(prior, x[:1], x[:1])[0].diagonal()
    )


def test_waves_of_partial_phase_have_their_own_variance_for_sine_and_cosine(item, problem, axis):
    law = laws.FourierSeries(3, (0.5, 1.0), (0, 2), (0.0, 1.0))
    p = problem(item("a", ["x", "y"], law), space=[axis("x"), axis("y")])
    prior, x = input_sampler(p, p.inputs[0]).prior(), torch.rand(1, 6, 2).double()
    tables = [b.table(c) for b, c in zip(prior.bases, x.unbind(-1), strict=True)]
    design = torch.einsum("bni,bnj->bnij", *tables).flatten(2)
    slow = (design * prior.variance.flatten()) @ design.mT
    torch.testing.assert_close(covariance(prior, x, x), slow)


def test_the_nugget_grows_until_the_factor_exists(item, problem, many, monkeypatch):
    monkeypatch.setattr("piop.sampling.kriging.NUGGET", 1e-25)
    smooth = laws.GaussianRandomField(tau=5.0, alpha=8.0, scale=1e10, modes=100)
    p = problem(item("a", ["x"], smooth, shape=(64,)))
    f = sample_inputs(p, many(2))
    samples = seen(p, f, many(2))
    twice = FunctionSamples(samples.points.repeat(1, 2, 1), samples.values.repeat(1, 2, 1))
    assert relative(reconstruct(p, p.inputs[0], twice), f["a"], TICKS).max() < 1e-3


def test_long_lists_of_points_are_cut_without_change(item, problem, axis, monkeypatch):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=3)
    p = problem(item("a", ["x", "y"], law), space=[axis("x"), axis("y")])
    prior, x = input_sampler(p, p.inputs[0]).prior(), torch.rand(2, 9, 2).double()
    whole = covariance(prior, x, x)
    monkeypatch.setattr("piop.sampling.kriging._CHUNK", 300)
    torch.testing.assert_close(covariance(prior, x, x), whole)


def test_many_sensors_are_taken_a_piece_at_a_time_without_change(item, problem, axis, monkeypatch):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=2)
    p = problem(item("a", ["x", "y"], law), space=[axis("x"), axis("y")])
    prior, x = input_sampler(p, p.inputs[0]).prior(), torch.rand(2, 60, 2).double()
    prior = replace(prior, mean=torch.ones_like(prior.mean))
    values, mask = torch.randn(2, 60).double(), torch.rand(2, 60) < 0.8
    whole = krige(prior, x, values, mask)
    monkeypatch.setattr("piop.sampling.kriging._POINT_CHUNK", 400)  # eight sensors of both samples
    torch.testing.assert_close(krige(prior, x, values, mask).coefficients, whole.coefficients)


def test_sensors_shared_by_all_samples_are_no_different(item, problem, axis, many):
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=5)
    for shape in ((4, 4), (12, 12)):
        p = problem(item("a", ["x", "y"], law, "grid", shape), space=[axis("x"), axis("y")])
        samples = seen(p, sample_inputs(p, many(3)), many(3))
        shared = reconstruct(p, p.inputs[0], samples)
        every = torch.ones(samples.values.shape[:2], dtype=torch.bool)
        alone = reconstruct(p, p.inputs[0], FunctionSamples(samples.points, samples.values, every))
        torch.testing.assert_close(
            shared.on_grid([TICKS[0][:9]] * 2), alone.on_grid([TICKS[0][:9]] * 2)
        )


def test_single_precision_in_gives_single_precision_out(item, problem, many):
    p = problem(item("a", ["x"], SERIES, shape=(24,)))
    f = sample_inputs(p, many(3))
    found = reconstruct(p, p.inputs[0], seen(p, f, many(3), torch.float32))
    assert found.coefficients.dtype == torch.float32
    assert relative(found.to(dtype=torch.float64), f["a"], TICKS).max() < 1e-4


def test_cells_take_the_mean_of_their_sensors_or_of_the_law(item, problem):
    p = problem(item("a", ["x"], laws.PiecewiseConstant(4, 1.0, 5.0)))
    points = torch.tensor([[[0.1], [0.2], [0.6], [0.9]]]).double()
    values = torch.tensor([[[2.0], [4.0], [7.0], [9.0]]]).double()
    mask = torch.tensor([[True, True, True, False]])
    found = reconstruct(p, p.inputs[0], FunctionSamples(points, values, mask))
    assert found.values.tolist() == [[3.0, 3.0, 7.0, 3.0]]
    assert reconstruct(p, p.inputs[0], FunctionSamples(points, values)).values[0, 3] == 9.0


def test_scalars_are_the_mean_of_what_is_seen(item, problem):
    p = problem(item("a", (), laws.Uniform(0.0, 5.0)))
    values = torch.tensor([[[1.0], [3.0]]])
    samples = FunctionSamples(torch.zeros(1, 2, 0), values)
    assert reconstruct(p, p.inputs[0], samples)(torch.zeros(1, 1, 0)).tolist() == [[2.0]]
    masked = FunctionSamples(torch.zeros(1, 2, 0), values, torch.tensor([[False, True]]))
    assert reconstruct(p, p.inputs[0], masked)(torch.zeros(1, 1, 0)).tolist() == [[3.0]]


def by_expression(item, problem, axis, expression, smooth, shape):
    return problem(
        item("a", ["x", "y"], expression=expression, smooth=smooth, shape=shape),
        item("g", ["x", "y"], laws.GaussianRandomField(tau=4.0, alpha=4.0), hidden=True),
        space=[axis("x"), axis("y", 0.0, 2.0, periodic=False)],
    )


G = sympy.Function("g", real=True)(*sympy.symbols("x y", real=True))


def test_a_rough_expression_takes_the_nearest_sensor_over_the_end(item, problem, axis, monkeypatch):
    p = by_expression(item, problem, axis, sympy.sign(G), False, (4,))
    points = torch.tensor([[[0.05, 0.5], [0.5, 0.5], [0.5, 1.9], [0.97, 1.0]]]).double()
    samples = FunctionSamples(points, torch.tensor([[[1.0], [2.0], [3.0], [4.0]]]).double())
    found = reconstruct(p, p.inputs[0], samples)
    at = torch.tensor([[[0.98, 0.5], [0.6, 0.4], [0.6, 2.0], [0.02, 1.0]]]).double()
    assert found(at).tolist() == [[1, 2, 3, 4]]
    assert found.derivative(at, (1, 0)).abs().max() == 0
    with monkeypatch.context() as few:
        few.setattr("piop.fields.MAX_PAIRS", 8)  # two points at a time
        assert found(at).tolist() == [[1, 2, 3, 4]]
    mask = torch.tensor([[False, True, True, True]])
    masked = reconstruct(p, p.inputs[0], FunctionSamples(points, samples.values, mask))
    assert masked.take(torch.tensor([0])).to(dtype=torch.float32)(at).tolist() == [[4, 2, 3, 4]]


def test_a_smooth_expression_is_interpolated_by_a_stand_in_law(item, problem, axis, many):
    p = by_expression(item, problem, axis, sympy.exp(30 * G), True, (200,))
    f = sample_inputs(p, many(4))
    axes = [torch.linspace(0, 1, 9).double(), torch.linspace(0, 2, 9).double()]
    assert relative(reconstruct(p, p.inputs[0], seen(p, f, many(4))), f["a"], axes).max() < 0.05


def test_the_stand_in_law_has_the_variance_of_the_input_everywhere(item, problem, axis):
    p = by_expression(item, problem, axis, sympy.exp(30 * G), True, (10,))
    prior = input_sampler(p, p.inputs[0]).prior()
    at = torch.tensor([[[0.0, 0.0], [0.5, 1.0], [1.0, 2.0]]]).double()
    variance = variance_at(prior, at)
    torch.testing.assert_close(variance, variance[:, :1].expand(1, 3), rtol=1e-6, atol=0)
    ends = torch.tensor([[[0.0, 0.0], [0.0, 2.0], [1.0, 0.0]]]).double()
    correlation = covariance(prior, ends, ends)[0, 0] / variance[0, 0]
    assert correlation[1] < 0.05  # y is no circle
    assert correlation[2] > 0.999  # x is one


def test_bad_numbers_and_what_has_no_covariance_are_refused(item, problem, many):
    p = problem(item("a", ["x"], FIELD))
    points = torch.rand(1, 4, 1)
    with pytest.raises(DataError, match="points or values are not finite where the mask says"):
        reconstruct(p, p.inputs[0], FunctionSamples(points, torch.full((1, 4, 1), torch.nan)))
    past = problem(item("a", ["x"], laws.History(1.0)))
    with pytest.raises(
        NotSupportedError, match=r"inputs\.a: the distribution history has no .*covariance"
    ):
        reconstruct(past, past.inputs[0], FunctionSamples(points, points))


@pytest.mark.parametrize("periodic", [True, False])
def test_the_covariance_of_grids_is_that_of_their_points(periodic, item, problem, axis):
    """Two grids of unequal numbers of positions, their points in any order."""
    law = laws.GaussianRandomField(tau=5.0, alpha=3.0, modes=3)
    p = problem(item("a", ["x", "y"], law), space=[axis("x", periodic=periodic), axis("y")])
    prior = input_sampler(p, p.inputs[0]).prior()

    def grid(*counts):
        points = torch.cartesian_prod(*(torch.rand(count).double() for count in counts))
        return points[torch.randperm(len(points))][None]

    def design(points):
        tables = [b.table(c) for b, c in zip(prior.bases, points.unbind(-1), strict=True)]
        return torch.einsum("bni,bnj->bnij", *tables).flatten(2)

    x, y = grid(4, 3), grid(2, 7)
    slow = (design(x) * prior.variance.flatten()) @ design(y).mT
    torch.testing.assert_close(covariance(prior, x, y), slow)
