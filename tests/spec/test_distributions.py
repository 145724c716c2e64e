"""Laws check their own numbers; Matérn and power form are the same law."""

import math

import pytest
from scipy import integrate, special

from piop.spec.distributions import (
    DISTRIBUTIONS,
    NAMES,
    Constant,
    FourierSeries,
    FromFile,
    GaussianRandomField,
    History,
    Integer,
    LogUniform,
    Matern,
    Normal,
    PiecewiseConstant,
    Uniform,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FourierSeries(0, (-1, 1), (1, 2)), "terms: 0 is not a whole number of at least 1"),
        (lambda: FourierSeries(2.0, (-1, 1), (1, 2)), "terms: 2.0 is not a whole number"),
        (lambda: FourierSeries(True, (-1, 1), (1, 2)), "terms: True is not a whole number"),
        (lambda: FourierSeries(2, (1, -1), (1, 2)), r"amplitude: \[1, -1\] is not a range: low is"),
        (lambda: FourierSeries(2, (0, math.inf), (1, 2)), "amplitude: inf is not a finite number"),
        (lambda: FourierSeries(2, 3.0, (1, 2)), r"amplitude: 3.0 is not a range \[low, high\]"),
        (lambda: FourierSeries(2, (0, 1), (1, 2, 3)), r"wavenumber: \(1, 2, 3\) is not a range"),
        (lambda: FourierSeries(2, (0, 1), (3, 1)), r"wavenumber: \[3, 1\] is not a range: low"),
        (lambda: FourierSeries(2, (0, 1), (-1, 1)), "wavenumber: -1 is not a whole number of at"),
        (lambda: FourierSeries(2, (0, 1), (1, 1), (0, "a")), "phase: 'a' is not a finite number"),
        (lambda: GaussianRandomField(), "needs tau and alpha, or matern"),
        (lambda: GaussianRandomField(tau=1.0), "needs tau and alpha, or matern"),
        (lambda: GaussianRandomField(1.0, 2.0, matern=Matern(1, 1)), "matern: it takes the place"),
        (lambda: GaussianRandomField(scale=2.0, matern=Matern(1, 1)), "matern: it takes the place"),
        (lambda: GaussianRandomField(-1.0, 2.0), "tau: -1 is negative"),
        (lambda: GaussianRandomField(0, 2.0), "tau: 0 gives the constant mode infinite variance"),
        (lambda: GaussianRandomField(1.0, 0), "scale and alpha must be positive, got 1 and 0"),
        (lambda: GaussianRandomField(1.0, 2.0, -3.0), "scale and alpha must be positive, got -3"),
        (lambda: GaussianRandomField(1.0, math.nan), "alpha: nan is not a finite number"),
        (lambda: GaussianRandomField(1.0, 2.0, modes=0), "modes: 0 is not a whole number of at"),
        (lambda: GaussianRandomField(1.0, 2.0, zero_mean=1), "zero_mean: 1 is neither true nor"),
        (lambda: GaussianRandomField(1.0, 2.0, mean="a"), "mean: 'a' is not a finite number"),
        (
            lambda: GaussianRandomField(1.0, 2.0, boundary={"x": "robin"}),
            "boundary.x: 'robin' is not one of periodic, neumann, dirichlet",
        ),
        (
            lambda: GaussianRandomField(1.0, 2.0, zero_mean=True, boundary={"x": "dirichlet"}),
            "zero_mean: a field with a dirichlet axis has no constant mode",
        ),
        (lambda: Matern(0, 1), "matern.smoothness: 0 is not positive"),
        (lambda: Matern(1, -1), "matern.length: -1 is not positive"),
        (lambda: Matern(1, 1, math.inf), "matern.variance: inf is not a finite number"),
        (lambda: PiecewiseConstant(0, 0, 1), "cells: 0 is not a whole number of at least 1"),
        (lambda: PiecewiseConstant((), 0, 1), "cells: the list is empty"),
        (lambda: PiecewiseConstant((2, 0), 0, 1), "cells: 0 is not a whole number"),
        (lambda: PiecewiseConstant(2, 1, 0), "low: 1 is above high: 0"),
        (lambda: Uniform(2, 1), "low: 2 is above high: 1"),
        (lambda: Uniform(None, 1), "low: None is not a finite number"),
        (lambda: LogUniform(0, 1), "low: 0 is not positive, as log_uniform needs"),
        (lambda: Integer(2, 1), "low: 2 is above high: 1"),
        (lambda: Integer(0, 1.5), "high: 1.5 is not a whole number up to 1,000,000,000"),
        (lambda: Integer(-2e9, 1), "low: -2e[+]09 is not a whole number up to"),
        (lambda: Normal(0, 0), "std: 0 is not positive"),
        (lambda: Normal(True, 1), "mean: True is not a finite number"),
        (lambda: Constant("3"), "value: '3' is not a finite number"),
        (lambda: FromFile(" "), "path: ' ' is not the name of a file"),
        (lambda: FromFile("a.nc", ""), "variable: '' is not a name"),
        (lambda: History(math.nan), "until: nan is not a finite number"),
    ],
)
def test_wrong_numbers_are_refused_by_key_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_lists_become_tuples_and_whole_numbers_floats():
    law = FourierSeries(3, [0, 1], [1, 2])
    assert law == FourierSeries(3, (0.0, 1.0), (1, 2))
    assert hash(law) == hash(FourierSeries(3, (0.0, 1.0), (1, 2)))
    assert law.phase == (0.0, 2 * math.pi)


def test_every_law_has_one_name():
    assert {DISTRIBUTIONS[name]: name for name in DISTRIBUTIONS} == NAMES
    assert set(NAMES) > {FourierSeries, GaussianRandomField, FromFile, History}


@pytest.mark.parametrize(("nu", "length"), [(300, 0.1), (1e9, 1), (1.5, 1e-300), (1.5, 1e300)])
def test_matern_out_of_the_range_of_numbers_is_refused(nu, length):
    with pytest.raises(ValueError, match=r"matern: smoothness .*: the spectral density is out of"):
        GaussianRandomField(matern=Matern(nu, length)).covariance(1)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.2])
def test_matern_in_power_form_has_the_stated_variance_and_covariance(nu, dimension):
    length, variance = 0.7, 2.0
    scale, tau, alpha = GaussianRandomField(matern=Matern(nu, length, variance)).covariance(
        dimension
    )
    assert alpha == nu + dimension / 2
    # The variance is the integral of the spectral density over (2π)^d.
    surface = {1: 2.0, 2: 2 * math.pi, 3: 4 * math.pi}[dimension]
    mass, _ = integrate.quad(
        lambda w: w ** (dimension - 1) * scale * (w * w + tau * tau) ** -alpha, 0, math.inf
    )
    assert surface * mass / (2 * math.pi) ** dimension == pytest.approx(variance, rel=1e-5)
    if dimension == 1:
        r = 0.4
        density, _ = integrate.quad(
            lambda w: scale * (w * w + tau * tau) ** -alpha / math.pi,
            0,
            math.inf,
            weight="cos",
            wvar=r,
        )
        z = math.sqrt(2 * nu) * r / length
        exact = variance * 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)
        assert density == pytest.approx(exact, rel=1e-5)


def test_infinite_variance_is_refused_unless_modes_bound_it():
    with pytest.raises(ValueError, match="alpha: 1 gives infinite variance in 2 coordinates; it"):
        GaussianRandomField(1.0, 1.0).covariance(2)
    assert GaussianRandomField(1.0, 1.0, modes=4).covariance(2) == (1.0, 1.0, 1.0)


def test_differentiability_is_what_the_residual_may_ask_for():
    assert GaussianRandomField(1.0, 3.0).differentiability(2) == 2.0
    assert GaussianRandomField(matern=Matern(1.5, 0.2)).differentiability(3) == 1.5
    assert FourierSeries(3, (0, 1), (1, 2)).differentiability(1) == math.inf
    assert PiecewiseConstant(3, 0, 1).differentiability(1) == 0.0
    assert FromFile("a.nc").differentiability(1) == 2.0
    assert math.isnan(History(1.0).differentiability(2))
    scalars = (Uniform(0, 1), LogUniform(1, 2), Integer(0, 1), Normal(0, 1), Constant(1))
    assert {law.differentiability(0) for law in scalars} == {math.inf}


def test_cells_are_counted_for_every_axis():
    assert PiecewiseConstant(3, 0, 1).per_axis(2) == (3, 3)
    assert PiecewiseConstant([3], 0, 1).per_axis(2) == (3, 3)
    assert PiecewiseConstant((3, 4), 0, 1).per_axis(2) == (3, 4)
    with pytest.raises(ValueError, match="cells: 2 counts for 3 coordinates; give one per axis"):
        PiecewiseConstant((3, 4), 0, 1).per_axis(3)
