"""Random Fourier series: the formula, and its moments against theory."""

import math

import pytest
import torch

from piop.sampling.random_fields import draw_series, series_prior
from piop.spec.distributions import FourierSeries

LAW = FourierSeries(terms=10, amplitude=(-0.5, 0.5), wavenumber=(1, 3))


def test_one_dimension_is_the_sum_of_sines_of_the_stated_numbers(many, axis):
    law = FourierSeries(terms=3, amplitude=(0.5, 1.5), wavenumber=(0, 4), phase=(0.2, 1.0))
    draws, x = many(5), torch.linspace(-1, 4, 9).double()
    f = draw_series(law, [axis("x", -1.0, 2.0)], draws, "f")
    amplitude = 0.5 + draws.uniform("f/amplitude", 3)
    phase = 0.2 + 0.8 * draws.uniform("f/phase", 3)
    numbers = draws.integers("f/wavenumber", 0, 4, 3, 1)[..., 0].double()
    angle = 2 * math.pi * numbers[..., None] * (x + 1.0) / 3.0 + phase[..., None]
    torch.testing.assert_close(f.on_grid([x]), (amplitude[..., None] * angle.sin()).sum(1))


@pytest.mark.parametrize("d", [2, 3])
def test_more_dimensions_are_plane_waves_in_all_directions(d, many, axis):
    draws = many(4)
    f = draw_series(LAW, [axis(n) for n in "xyz"[:d]], draws, "f")
    x = torch.rand(4, 6, d, generator=torch.Generator().manual_seed(0)).double()
    amplitude = draws.uniform("f/amplitude", 10) - 0.5
    phase = 2 * math.pi * draws.uniform("f/phase", 10)
    signs = 2 * draws.integers("f/sign", 0, 1, 10, d) - 1
    waves = 2 * math.pi * (draws.integers("f/wavenumber", 1, 3, 10, d) * signs).double()
    angle = torch.einsum("bnd,bkd->bnk", x, waves) + phase[:, None]
    torch.testing.assert_close(f(x), (amplitude[:, None] * angle.sin()).sum(-1))
    assert {-1, 1} == set(signs.flatten().tolist())


def test_variance_is_terms_times_a_sixth_of_the_half_amplitude_squared(many, axis):
    # E[A²] E[sin²] = (0.25/3)/2 for each of ten terms.
    f = draw_series(LAW, [axis("x")], many(4000), "f")
    values = f(torch.tensor([[[0.37]]]).double())[:, 0]
    assert float(values.var()) == pytest.approx(10 * 0.25 / 6, rel=5 * math.sqrt(2 / 4000))
    assert abs(float(values.mean())) < 5 * math.sqrt(10 * 0.25 / 6 / 4000)


@pytest.mark.parametrize(
    ("law", "d"),
    [
        (LAW, 1),
        (LAW, 2),
        (FourierSeries(4, (0.5, 2.0), (0, 2), (0.0, 1.0)), 1),
        (FourierSeries(2, (0.5, 2.0), (0, 2), (0.0, 2.0)), 2),
        (FourierSeries(2, (1.0, 1.0), (2, 2), (0.5, 0.5)), 1),
    ],
)
def test_prior_has_the_moments_of_the_drawn_coefficients(law, d, many, axis):
    count, axes = 20000, [axis(n) for n in "xy"[:d]]
    prior, drawn = series_prior(law, axes), draw_series(law, axes, many(count), "f").coefficients
    sigma = drawn.std(0) / count**0.5
    assert ((drawn.mean(0) - prior.mean).abs() <= 5 * sigma + 1e-9).all()
    kurtosis = ((drawn - drawn.mean(0)) ** 4).mean(0)
    spread = (kurtosis / count).sqrt()
    assert ((drawn.var(0) - prior.variance).abs() <= 5 * spread + 1e-9).all()


def test_prior_moments_are_those_of_the_values(many, axis):
    law = FourierSeries(4, (0.5, 2.0), (0, 2), (0.0, 1.0))
    axes = [axis("x")]
    mean, std = series_prior(law, axes).moments()
    values = draw_series(law, axes, many(20000), "f").on_grid([torch.arange(8).double() / 8])
    # Coefficients are correlated here, which the box's average does not see.
    assert mean == pytest.approx(float(values.mean()), abs=0.05)
    assert std == pytest.approx(float(((values - values.mean()) ** 2).mean().sqrt()), rel=0.03)
