"""Distributions of random inputs, as ``inputs:`` of a spec states them by ``law:``.

Pure configuration: no torch, no drawing. Every class checks its own numbers and raises
``ValueError`` with a text that names the key, the value and what is allowed. L is the length of
the domain along an axis, d the number of coordinates of the input. Values are in the units of the
input, coordinates in theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, final

AxisBoundary = Literal["periodic", "neumann", "dirichlet"]
AXIS_BOUNDARIES: tuple[str, ...] = ("periodic", "neumann", "dirichlet")
_LARGEST = 10**9  # whole numbers of a distribution


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key}: {value!r} is not a finite number")
    return float(value)


def _whole(key: str, value: object, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{key}: {value!r} is not a whole number of at least {low}")
    return value


def _pair(key: str, value: object) -> tuple[object, object]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{key}: {value!r} is not a range [low, high]")
    return value[0], value[1]


def _range(key: str, value: object) -> tuple[float, float]:
    low, high = (_number(key, v) for v in _pair(key, value))
    if low > high:
        raise ValueError(f"{key}: [{low:g}, {high:g}] is not a range: low is above high")
    return low, high


def _low_high(distribution: Uniform | LogUniform | Integer | PiecewiseConstant) -> None:
    low, high = _number("low", distribution.low), _number("high", distribution.high)
    if low > high:
        raise ValueError(f"low: {low:g} is above high: {high:g}")
    object.__setattr__(distribution, "low", low)
    object.__setattr__(distribution, "high", high)


@final
@dataclass(frozen=True)
class FourierSeries:
    """Sum of sines with random amplitude, wavenumber and phase.

    The function is Σ_k A_k sin(2π l_k (x − x0)/L + φ_k). Each term draws A uniform, the whole
    number l uniform and φ uniform. In d > 1 coordinates the wave vector has one such l per axis,
    each with a random sign.

    Attributes:
        terms: How many sines are summed.
        amplitude: Range of A, units of the input.
        wavenumber: Range of l, whole periods over the domain, both ends included.
        phase: Range of φ in radians.

    Source: Dos Santos et al. 2023, sec. 4 (d = 1); the signs for d > 1 are ours, so that waves run
    in all directions.
    """

    terms: int
    amplitude: tuple[float, float]
    wavenumber: tuple[int, int]
    phase: tuple[float, float] = (0.0, 2 * math.pi)

    def __post_init__(self) -> None:
        _whole("terms", self.terms, 1)
        low, high = (_whole("wavenumber", v, 0) for v in _pair("wavenumber", self.wavenumber))
        if low > high:
            raise ValueError(f"wavenumber: [{low}, {high}] is not a range: low is above high")
        object.__setattr__(self, "wavenumber", (low, high))
        object.__setattr__(self, "amplitude", _range("amplitude", self.amplitude))
        object.__setattr__(self, "phase", _range("phase", self.phase))

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return 0.0

    def differentiability(self, dimension: int) -> float:
        """How many derivatives exist in the mean-square sense: all."""
        return math.inf


@final
@dataclass(frozen=True)
class Matern:
    """Matérn covariance, σ² 2^(1−ν)/Γ(ν) z^ν K_ν(z) with z = √(2ν) r/ℓ.

    Attributes:
        smoothness: ν > 0: the field has fewer than ν mean-square derivatives; 0.5 is the
            exponential covariance.
        length: Correlation length ℓ, units of the coordinates.
        variance: σ², squared units of the input.

    Source: Rasmussen & Williams 2006, eq. 4.14.
    """

    smoothness: float
    length: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        for key in ("smoothness", "length", "variance"):
            value = _number(f"matern.{key}", getattr(self, key))
            if value <= 0:
                raise ValueError(f"matern.{key}: {value:g} is not positive")
            object.__setattr__(self, key, value)


@final
@dataclass(frozen=True)
class GaussianRandomField:
    """Gaussian field of covariance scale·(−Δ + τ²)^(−α), an operator on L2 of the box.

    With λ_k and φ_k the eigenvalues and the orthonormal eigenfunctions of −Δ under the boundary
    conditions, the covariance of the values at x and y is Σ_k scale·(λ_k + τ²)^(−α) φ_k(x) φ_k(y).

    Attributes:
        tau: τ ≥ 0, inverse length: 1/τ is the correlation length. Not given with ``matern``.
        alpha: Dimensionless: the field has fewer than α − d/2 mean-square derivatives; above d/2
            unless ``modes`` is given. Not given with ``matern``.
        scale: Prefactor of the covariance > 0. Not given with ``matern``.
        matern: The same distribution stated by smoothness, length and variance instead; on a
            periodic axis its covariance is the Matérn one summed over all periods, so the variance
            is σ² only where ℓ is well below L.
        boundary: ``periodic``, ``neumann`` (zero slope) or ``dirichlet`` (zero value, before
            ``mean`` is added) for each named axis; by default periodic on periodic axes, else
            neumann.
        zero_mean: Leave the constant mode out, so that each function's average over the box is
            exactly ``mean``.
        mean: Constant added to the field, units of the input.
        modes: Highest wavenumber (periodic) or number of half waves (otherwise) kept along each
            axis; by default so many that the variance left out is negligible, see
            :mod:`piop.sampling.random_fields`.

    Source: Li et al. 2021, App. A.3 (2010.08895); Lindgren, Rue & Lindström 2011, eq. 2 for the
    Matérn form.
    """

    tau: float | None = None
    alpha: float | None = None
    scale: float = 1.0
    matern: Matern | None = None
    boundary: Mapping[str, AxisBoundary] = field(default_factory=dict, hash=False)
    zero_mean: bool = False
    mean: float = 0.0
    modes: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "boundary", dict(self.boundary or {}))
        for axis, kind in self.boundary.items():
            if kind not in AXIS_BOUNDARIES:
                raise ValueError(
                    f"boundary.{axis}: {kind!r} is not one of {', '.join(AXIS_BOUNDARIES)}"
                )
        object.__setattr__(self, "mean", _number("mean", self.mean))
        if not isinstance(self.zero_mean, bool):
            raise ValueError(f"zero_mean: {self.zero_mean!r} is neither true nor false")
        if self.modes is not None:
            _whole("modes", self.modes, 1)
        dirichlet = "dirichlet" in self.boundary.values()
        if self.zero_mean and dirichlet:
            raise ValueError(
                "zero_mean: a field with a dirichlet axis has no constant mode to leave out"
            )
        if self.matern is not None:
            if self.tau is not None or self.alpha is not None or self.scale != 1.0:
                raise ValueError(
                    "matern: it takes the place of scale, tau and alpha; give one or the other"
                )
            return
        self._check_covariance(dirichlet)

    def _check_covariance(self, dirichlet: bool) -> None:
        if self.tau is None or self.alpha is None:
            raise ValueError(
                "gaussian_random_field needs tau and alpha, "
                "or matern: {smoothness, length, variance}"
            )
        for key in ("tau", "alpha", "scale"):
            object.__setattr__(self, key, _number(key, getattr(self, key)))
        if self.scale <= 0 or self.alpha <= 0:
            raise ValueError(
                f"scale and alpha must be positive, got {self.scale:g} and {self.alpha:g}"
            )
        if self.tau < 0:
            raise ValueError(f"tau: {self.tau:g} is negative")
        if self.tau == 0 and not (self.zero_mean or dirichlet):
            raise ValueError(
                "tau: 0 gives the constant mode infinite variance; use tau > 0 or zero_mean: true"
            )

    def covariance(self, dimension: int) -> tuple[float, float, float]:
        """Return (scale, τ, α) in ``dimension`` coordinates, given as Matérn or not.

        Raises:
            ValueError: If α ≤ d/2 and ``modes`` is not given: the variance would be infinite.

        Example:
            >>> distribution = GaussianRandomField(matern=Matern(smoothness=0.5, length=1.0))
            >>> distribution.covariance(1)  # exponential covariance: spectral density 2/(1 + w²)
            (2.0, 1.0, 1.0)

        Source: Rasmussen & Williams 2006, eq. 4.15 in angular frequency.
        """
        if self.matern is None:
            assert self.tau is not None and self.alpha is not None  # noqa: S101 - kept by __post_init__
            if self.alpha <= dimension / 2 and self.modes is None:
                raise ValueError(
                    f"alpha: {self.alpha:g} gives infinite variance in {dimension} coordinates; "
                    f"it must be above {dimension / 2:g}, or modes be given"
                )
            return self.scale, self.tau, self.alpha
        nu, half = self.matern.smoothness, dimension / 2
        tau = math.sqrt(2 * nu) / self.matern.length
        gammas = math.exp(math.lgamma(nu + half) - math.lgamma(nu))
        scale = self.matern.variance * (4 * math.pi) ** half * gammas * tau ** (2 * nu)
        return round_off(scale), tau, nu + half

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return self.mean

    def differentiability(self, dimension: int) -> float:
        """Mean-square derivatives exist for every order strictly below this: α − d/2."""
        return self.covariance(dimension)[2] - dimension / 2


def round_off(value: float) -> float:
    """Drop the last two of sixteen digits, which are rounding error of the gamma function."""
    return float(f"{value:.14g}")


@final
@dataclass(frozen=True)
class PiecewiseConstant:
    """Equal cells, each with its own value uniform in [low, high].

    Attributes:
        cells: Cells along each axis; one whole number for all axes, or one per axis.
        low: Least value, units of the input.
        high: Greatest value.
    """

    cells: int | tuple[int, ...]
    low: float
    high: float

    def __post_init__(self) -> None:
        _low_high(self)
        if isinstance(self.cells, tuple | list):
            if not self.cells:
                raise ValueError("cells: the list is empty; give one whole number, or one per axis")
            object.__setattr__(self, "cells", tuple(_whole("cells", c, 1) for c in self.cells))
        else:
            _whole("cells", self.cells, 1)

    def per_axis(self, dimension: int) -> tuple[int, ...]:
        """Cells along each of ``dimension`` axes.

        Raises:
            ValueError: If as many cell counts as axes were not given.
        """
        if isinstance(self.cells, int):
            return (self.cells,) * dimension
        if len(self.cells) == 1:
            return self.cells * dimension
        if len(self.cells) != dimension:
            raise ValueError(
                f"cells: {len(self.cells)} counts for {dimension} coordinates; give one per axis"
            )
        return self.cells

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return 0.5 * (self.low + self.high)

    def differentiability(self, dimension: int) -> float:
        """No derivative exists."""
        return 0.0


@final
@dataclass(frozen=True)
class Uniform:
    """A number uniform in [low, high]; of coordinates, a function constant in them."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _low_high(self)

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return 0.5 * (self.low + self.high)

    def differentiability(self, dimension: int) -> float:
        """A constant has all derivatives."""
        return math.inf


@final
@dataclass(frozen=True)
class Integer:
    """A whole number from low to high, both included, one as likely as another."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _low_high(self)
        for key in ("low", "high"):
            value = getattr(self, key)
            if value != int(value) or abs(value) > _LARGEST:
                raise ValueError(f"{key}: {value:g} is not a whole number up to {_LARGEST:,}")
            object.__setattr__(self, key, int(value))

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return (self.low + self.high) // 2

    def differentiability(self, dimension: int) -> float:
        """A constant has all derivatives."""
        return math.inf


@final
@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform between those of low and high."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _low_high(self)
        if self.low <= 0:
            raise ValueError(f"low: {self.low:g} is not positive, as log_uniform needs")

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return 0.5 * (self.low + self.high)

    def differentiability(self, dimension: int) -> float:
        """A constant has all derivatives."""
        return math.inf


@final
@dataclass(frozen=True)
class Normal:
    """A normally distributed number of this mean and standard deviation."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _number("mean", self.mean))
        object.__setattr__(self, "std", _number("std", self.std))
        if self.std <= 0:
            raise ValueError(f"std: {self.std:g} is not positive")

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return self.mean

    def differentiability(self, dimension: int) -> float:
        """A constant has all derivatives."""
        return math.inf


@final
@dataclass(frozen=True)
class Constant:
    """The same number in every draw."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _number("value", self.value))

    @property
    def middle(self) -> float:
        """The value in the middle of all draws."""
        return self.value

    def differentiability(self, dimension: int) -> float:
        """A constant has all derivatives."""
        return math.inf


@final
@dataclass(frozen=True)
class FromFile:
    """Functions stored on a grid in a file; a draw picks one of them.

    Attributes:
        path: NetCDF (``.nc``), ``.npz`` or ``.csv``, relative to the folder of the spec and inside
            it.
        variable: Name of the array in the file; by default the name of the input.
        file: Where the path leads, once checked to lie inside the folder; it is not
            compared.
    """

    path: str
    variable: str | None = None
    file: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise ValueError(f"path: {self.path!r} is not the name of a file")
        if self.variable is not None and (not isinstance(self.variable, str) or not self.variable):
            raise ValueError(f"variable: {self.variable!r} is not a name")

    @property
    def middle(self) -> None:
        """None: it has no value that stands for all draws."""
        return

    def differentiability(self, dimension: int) -> float:
        """As smooth as its interpolant, a cubic spline: two continuous derivatives."""
        return 2.0


@final
@dataclass(frozen=True)
class History:
    """The solution itself up to a time: see a past, predict the rest.

    Each point of space is seen with the values of every unknown at even times after the start, of
    which ``until`` is the last: ten of them up to 10 are 1, 2, …, 10 where time starts at 0.

    Attributes:
        until: End of the past, in the units of time; inside the time domain.
        times: How many times are seen.
    """

    until: float
    times: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", _number("until", self.until))
        _whole("times", self.times, 1)

    @property
    def middle(self) -> None:
        """None: it has no value that stands for all draws."""
        return

    def differentiability(self, dimension: int) -> float:
        """As smooth as the solution, which is not known here."""
        return math.nan


@final
@dataclass(frozen=True)
class FromData:
    """Functions that come with their solutions, in a data set, and are drawn from no distribution.

    Attributes:
        noise: Levels of noise that they are seen with, drawn for each sample; shares of the
            standard deviation of the data. None for what the data say.
    """

    noise: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        levels = tuple(float(n) for n in self.noise)
        if not all(0 <= n < math.inf for n in levels):
            raise ValueError("noise: a noise level is a number from 0 on")
        object.__setattr__(self, "noise", levels)

    @property
    def middle(self) -> None:
        """None: it has no value that stands for all draws."""
        return

    def differentiability(self, dimension: int) -> float:
        """As smooth as the data, which are not known here."""
        return math.nan


Distribution = (
    FourierSeries
    | GaussianRandomField
    | PiecewiseConstant
    | Uniform
    | LogUniform
    | Integer
    | Normal
    | Constant
    | FromFile
    | FromData
    | History
)

SCALAR_DISTRIBUTIONS = (Uniform, LogUniform, Integer, Normal, Constant)

DISTRIBUTIONS: dict[str, type[Distribution]] = {
    "fourier_series": FourierSeries,
    "gaussian_random_field": GaussianRandomField,
    "piecewise_constant": PiecewiseConstant,
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integer": Integer,
    "normal": Normal,
    "constant": Constant,
    "from_file": FromFile,
    "data": FromData,
    "history": History,
}
NAMES: dict[type[Distribution], str] = {
    distribution: name for name, distribution in DISTRIBUTIONS.items()
}
