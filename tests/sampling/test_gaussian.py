"""Gaussian fields: covariance, boundaries and truncation against theory and against gstools."""

import math

import gstools
import pytest
import sympy
import torch

from piop.domain import Coordinate
from piop.sampling.random import Draws
from piop.sampling.random_fields import MAX_PERIODS, gaussian_prior
from piop.spec.distributions import GaussianRandomField, Matern


def Axis(name, low=0.0, high=1.0, periodic=True):
    return Coordinate(name, sympy.Symbol(name, real=True), low, high, periodic)


def many(count):
    return Draws(seed=0, step=0, index=torch.arange(count))


X = Axis("x", 0.0, 2.0)
WALL = Axis("y", -1.0, 0.5, periodic=False)


def law(**more):
    return GaussianRandomField(**{"tau": 3.0, "alpha": 2.5, "scale": 4.0, **more})


def series_covariance(x, y, kind, tau, alpha, scale, low, length, terms=4000):
    """The covariance as the text states it: a sum over eigenfunctions, written out by hand."""
    total = 0.0
    for k in range(terms):
        if kind == "periodic":
            w = 2 * math.pi * k / length
            term = (1 if k == 0 else 2) / length * math.cos(w * (x - y))
        else:
            wave = math.cos if kind == "neumann" else math.sin
            w = math.pi * k / length
            square = (1 if k == 0 else 2) / length
            term = square * wave(w * (x - low)) * wave(w * (y - low))
        total += scale * (w * w + tau * tau) ** -alpha * term
    return total


@pytest.mark.parametrize("kind", ["periodic", "neumann", "dirichlet"])
def test_sampled_covariance_is_the_stated_one(kind):
    axis, count = Axis("x", 0.3, 2.3), 4000
    places = torch.tensor([0.45, 0.7, 1.5, 2.1]).double()
    f = gaussian_prior(law(boundary={"x": kind}), [axis]).normal(many(count), "f")
    values = f(places[None, :, None])
    sampled = values.mT @ values / count
    exact = torch.tensor(
        [
            [series_covariance(x, y, kind, 3.0, 2.5, 4.0, 0.3, 2.0) for y in places.tolist()]
            for x in places.tolist()
        ]
    ).double()
    # The variance of a sampled covariance is (C_xx C_yy + C_xy²)/n: five sigma.
    sigma = ((exact.diag()[:, None] * exact.diag() + exact**2) / count).sqrt()
    assert ((sampled - exact).abs() < 5 * sigma).all()
    assert (values.mean(0).abs() < 5 * (exact.diag() / count).sqrt()).all()


@pytest.mark.parametrize("kind", ["periodic", "neumann", "dirichlet"])
def test_the_basis_carries_the_stated_covariance_to_the_truncation(kind):
    axis = Axis("x", 0.3, 2.3)
    prior = gaussian_prior(law(boundary={"x": kind}), [axis])
    x, y = torch.tensor([0.5, 1.9]).double(), torch.tensor([0.6, 0.6]).double()
    table_x, table_y = prior.bases[0].table(x), prior.bases[0].table(y)
    ours = (table_x * prior.variance * table_y).sum(-1)
    exact = [
        series_covariance(a, b, kind, 3.0, 2.5, 4.0, 0.3, 2.0)
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    torch.testing.assert_close(ours, torch.tensor(exact).double(), atol=1e-8, rtol=1e-6)


def test_in_two_dimensions_eigenvalues_add_under_the_power():
    prior = gaussian_prior(law(modes=3), [X, WALL])
    wx, wy = 2 * math.pi / 2.0, math.pi / 1.5
    # bases: periodic 1, cos1..3, sin1..3; neumann 0..3
    assert prior.variance.shape == (7, 4)
    expected = 4.0 * ((2 * wx) ** 2 + (3 * wy) ** 2 + 9.0) ** -2.5
    assert float(prior.variance[5, 3]) == pytest.approx(expected, rel=1e-12)


def test_pointwise_variance_in_2d_matches_the_sum_over_waves():
    count = 3000
    prior = gaussian_prior(law(modes=4), [X, Axis("z", 0.0, 1.0)])
    f = prior.normal(many(count), "f")
    values = f(torch.tensor([[[0.3, 0.7]]]).double())[:, 0]
    exact = sum(
        4.0 * ((math.pi * i) ** 2 + (2 * math.pi * j) ** 2 + 9.0) ** -2.5 / 2.0
        for i in range(-4, 5)
        for j in range(-4, 5)
    )
    assert float(values.var()) == pytest.approx(exact, rel=5 * math.sqrt(2 / count))


def test_the_published_burgers_law_has_its_published_spread():
    # 1-D, N(0, 25²(−Δ + 25)^−2) without the constant mode: measured standard deviation 0.58.
    published = GaussianRandomField(tau=5.0, alpha=2.0, scale=625.0, zero_mean=True)
    mean, std = gaussian_prior(published, [Axis("x")]).moments()
    assert mean == 0.0
    assert std == pytest.approx(0.58, rel=0.03)


def test_the_published_navier_stokes_law_has_its_published_variance():
    # 2-D, tau 7, alpha 2.5, prefactor tau^(2(alpha−1)) in variance: sample variance 0.0343.
    published = GaussianRandomField(tau=7.0, alpha=2.5, scale=7.0**3, zero_mean=True)
    _, std = gaussian_prior(published, [Axis("x"), Axis("y")]).moments()
    assert std**2 == pytest.approx(0.0343, rel=0.01)


def test_zero_mean_functions_average_to_the_mean():
    f = gaussian_prior(law(zero_mean=True, mean=1.5, boundary={"y": "neumann"}), [WALL]).normal(
        many(5), "f"
    )
    x = -1.0 + 1.5 * (torch.arange(2000).double() + 0.5) / 2000
    torch.testing.assert_close(
        f.on_grid([x]).mean(1), torch.full((5,), 1.5).double(), atol=1e-9, rtol=0
    )


def test_neumann_fields_have_zero_slope_and_dirichlet_fields_zero_value_at_walls():
    ends = torch.tensor([[[-1.0], [0.5]]]).double()
    f = gaussian_prior(law(boundary={"y": "neumann"}), [WALL]).normal(many(4), "f")
    assert f.derivative(ends, (1,)).abs().max() < 1e-10
    assert f(ends).abs().min() > 1e-4
    f = gaussian_prior(law(boundary={"y": "dirichlet"}), [WALL]).normal(many(4), "f")
    assert f(ends).abs().max() < 1e-10
    assert f.derivative(ends, (1,)).abs().min() > 1e-4


def test_periodic_fields_match_to_every_order():
    f = gaussian_prior(law(), [X]).normal(many(4), "f")
    for order in range(6):
        left, right = f.derivative(torch.tensor([[[0.0], [2.0]]]).double(), (order,)).unbind(-1)
        torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-7 * float(left.abs().max()))


def test_boundary_follows_the_axis_unless_stated():
    periodic, wall = gaussian_prior(law(modes=2), [X, WALL]).bases
    assert periodic.size == 5
    assert wall.size == 3
    assert gaussian_prior(law(modes=2, boundary={"x": "dirichlet"}), [X]).bases[0].size == 2


def test_default_modes_leave_out_less_than_stated_or_stop_at_the_cap():
    smooth = GaussianRandomField(tau=5.0, alpha=4.0)
    axis = Axis("x")
    chosen = gaussian_prior(smooth, [axis])
    full = gaussian_prior(GaussianRandomField(tau=5.0, alpha=4.0, modes=5000), [axis])
    left_out = 1 - float(chosen.variance.sum() / full.variance.sum())
    assert 1e-11 < left_out < 1e-8
    rough = gaussian_prior(GaussianRandomField(tau=5.0, alpha=1.0), [axis])
    assert rough.bases[0].size == 2 * MAX_PERIODS[1] + 1


def test_three_dimensions_work_with_mixed_boundaries():
    f = gaussian_prior(law(modes=3), [X, WALL, Axis("z")]).normal(many(2), "f")
    assert f.coefficients.shape == (2, 7, 4, 7)
    assert f(torch.rand(2, 5, 3).double()).isfinite().all()


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_matern_covariance_equals_gstools_away_from_the_period(nu, dimension):
    length = 0.05  # far below the period of 1, so that the sum over periods does not show
    matern = GaussianRandomField(matern=Matern(nu, length, 2.0), modes={1: 4000, 2: 150}[dimension])
    prior = gaussian_prior(matern, [Axis(n) for n in "xy"[:dimension]])
    distance = torch.tensor([0.05, 0.1, 0.15]).double()
    first, *others = prior.bases
    pair = first.table(distance) * first.table(torch.zeros(1).double())
    covariance = prior.variance
    for basis in others[::-1]:
        covariance = covariance @ basis.table(torch.zeros(()).double()) ** 2
    ours = pair @ covariance
    # gstools writes √ν r·rescale/ℓ where the usual form has √(2ν) r/ℓ.
    oracle = gstools.Matern(dimension, var=2.0, len_scale=length, nu=nu, rescale=math.sqrt(2))
    expected = torch.from_numpy(oracle.covariance(distance.numpy()))
    torch.testing.assert_close(ours, expected, rtol=2e-3, atol=2e-3)


def test_a_field_of_infinite_variance_is_refused():
    with pytest.raises(ValueError, match="alpha: 1 gives infinite variance in 2 coordinates"):
        gaussian_prior(GaussianRandomField(tau=1.0, alpha=1.0), [X, WALL])
