"""Distributions of random inputs, as ``inputs:`` of a spec states them by ``law:``.

Pure configuration: no torch, no drawing. Every class checks its own numbers and raises
``ValueError`` with a text that names the key, the value and what is allowed. L is the length of
the domain along an axis, d the number of coordinates of the input. Values are in the units of the
input, coordinates in theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, final

from piop.spec.distribution_keys import CHECKS, AxisBoundary, number

_LARGEST = 10**9  # whole numbers of a distribution
_SIGMAS = 6.0  # standard deviations that one draw in 10⁹ exceeds on either side


@dataclass(frozen=True)
class Distribution:
    """The distribution of a random input.

    A new one is a final subclass, an entry in ``DISTRIBUTIONS``, and the check and the reader of
    each new key.

    Attributes:
        scalar: Whether it draws one number, which depends on no coordinate.
        function: Whether it draws functions of coordinates alone.
        derivatives: How many derivatives exist in the mean-square sense; NaN where unknown.
        without_mean: How to make its mean zero, a sentence.
    """

    scalar: ClassVar[bool] = False
    function: ClassVar[bool] = False
    derivatives: ClassVar[float] = math.nan
    without_mean: ClassVar[str] = "Use a distribution without a mean."

    def __post_init__(self) -> None:
        """Check every value that is given.

        Raises:
            ValueError: With the key, the value and what is allowed.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not item.default and item.name in CHECKS:
                object.__setattr__(self, item.name, CHECKS[item.name](item.name, value))

    @property
    def middle(self) -> float | None:
        """The value in the middle of all draws; None where none stands for all."""
        return 0.5 * (self.extremes[0] + self.extremes[-1]) if self.extremes else None

    @property
    def extremes(self) -> tuple[float, ...]:
        """The least and the greatest value that are drawn; nothing where they are not known."""
        return ()

    @property
    def reach(self) -> tuple[float, ...]:
        """Ends of the values at a point, of all draws but one in 10⁹; nothing where not known."""
        return self.extremes

    @property
    def mean_is_zero(self) -> bool:
        """False only where samples certainly have a mean."""
        return not any(self.extremes)

    @property
    def noise_levels(self) -> tuple[float, ...]:
        """Levels of noise that functions are observed with."""
        return ()

    def differentiability(self, dimension: int) -> float:
        """Mean-square derivatives exist for every order strictly below this.

        Args:
            dimension: Number of coordinates.
        """
        del dimension
        return self.derivatives


class BoundedDistribution(Distribution):
    """A distribution of values between two bounds."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """See the base class."""
        super().__post_init__()
        if self.low > self.high:
            raise ValueError(f"low: {self.low:g} is above high: {self.high:g}")

    @property
    def extremes(self) -> tuple[float, ...]:
        """See the base class."""
        return (self.low, self.high)


@dataclass(frozen=True)
class BoundedScalar(BoundedDistribution):
    """A number between two bounds."""

    low: float
    high: float
    scalar = True
    derivatives = math.inf


@final
@dataclass(frozen=True)
class FourierSeries(Distribution):
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
    function = True
    derivatives = math.inf
    without_mean = "Let wavenumber start at 1."

    @property
    def middle(self) -> float:
        """See the base class."""
        return 0.0

    @property
    def mean_is_zero(self) -> bool:
        """See the base class."""
        return self.wavenumber[0] > 0


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
            value = number(f"matern.{key}", getattr(self, key))
            if value <= 0:
                raise ValueError(f"matern.{key}: {value:g} is not positive")
            object.__setattr__(self, key, value)


@final
@dataclass(frozen=True)
class GaussianRandomField(Distribution):
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

    function = True
    without_mean = "Set zero_mean: true."

    def __post_init__(self) -> None:
        """See the base class."""
        super().__post_init__()
        dirichlet = "dirichlet" in self.boundary.values()
        if self.zero_mean and dirichlet:
            reason = "a field with a dirichlet axis has no constant mode to leave out"
            raise ValueError(f"zero_mean: {reason}")
        if self.matern is None:
            tau, alpha = self._power_law()
            if self.scale <= 0 or alpha <= 0:
                given = f"{self.scale:g} and {alpha:g}"
                raise ValueError(f"scale and alpha must be positive, got {given}")
            if tau < 0:
                raise ValueError(f"tau: {tau:g} is negative")
            if tau == 0 and not (self.zero_mean or dirichlet):
                advice = "use tau > 0 or zero_mean: true"
                raise ValueError(f"tau: 0 gives the constant mode infinite variance; {advice}")
        elif self.tau is not None or self.alpha is not None or self.scale != 1.0:
            place = "it takes the place of scale, tau and alpha"
            raise ValueError(f"matern: {place}; give one or the other")

    def _power_law(self) -> tuple[float, float]:
        """Return τ and α."""
        if self.tau is None or self.alpha is None:
            other = "matern: {smoothness, length, variance}"
            raise ValueError(f"gaussian_random_field needs tau and alpha, or {other}")
        return self.tau, self.alpha

    def covariance(self, dimension: int) -> tuple[float, float, float]:
        """Return (scale, τ, α) in ``dimension`` coordinates, given as Matérn or not.

        Raises:
            ValueError: If α ≤ d/2 and ``modes`` is not given: the variance would be infinite. Or if
                the scale is no number of double precision.

        Example:
            >>> distribution = GaussianRandomField(matern=Matern(smoothness=0.5, length=1.0))
            >>> distribution.covariance(1)  # exponential covariance: spectral density 2/(1 + w²)
            (2.0, 1.0, 1.0)

        Source: Rasmussen & Williams 2006, eq. 4.15 in angular frequency.
        """
        if self.matern is None:
            tau, alpha = self._power_law()
            if alpha <= dimension / 2 and self.modes is None:
                raise ValueError(
                    f"alpha: {alpha:g} gives infinite variance in {dimension} coordinates; "
                    f"it must be above {dimension / 2:g}, or modes be given"
                )
            return self.scale, tau, alpha
        nu, half = self.matern.smoothness, dimension / 2
        tau = math.sqrt(2 * nu) / self.matern.length
        try:
            gammas = math.exp(math.lgamma(nu + half) - math.lgamma(nu))
            scale = self.matern.variance * (4 * math.pi) ** half * gammas * tau ** (2 * nu)
        except OverflowError:
            scale = math.inf
        if not 0 < scale < math.inf:
            given = f"smoothness {nu:g}, length {self.matern.length:g}"
            raise ValueError(f"matern: {given}: the spectral density is out of range")
        return round_off(scale), tau, nu + half

    @property
    def middle(self) -> float:
        """See the base class."""
        return self.mean

    @property
    def reach(self) -> tuple[float, ...]:
        """See the base class: known where the variance is given."""
        if self.matern is None:
            return ()
        most = _SIGMAS * math.sqrt(self.matern.variance)
        return (self.mean - most, self.mean + most)

    @property
    def mean_is_zero(self) -> bool:
        """See the base class."""
        return self.zero_mean and self.mean == 0

    def differentiability(self, dimension: int) -> float:
        """See the base class: α − d/2."""
        return self.covariance(dimension)[2] - dimension / 2


def round_off(value: float) -> float:
    """Drop the last two of sixteen digits, which are rounding error of the gamma function."""
    return float(f"{value:.14g}")


@final
@dataclass(frozen=True)
class PiecewiseConstant(BoundedDistribution):
    """Equal cells, each with its own value uniform in [low, high].

    Attributes:
        cells: Cells along each axis; one whole number for all axes, or one per axis.
        low: Least value, units of the input.
        high: Greatest value.
    """

    cells: int | tuple[int, ...]
    low: float
    high: float

    function = True
    derivatives = 0.0

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
            given = f"{len(self.cells)} counts for {dimension} coordinates"
            raise ValueError(f"cells: {given}; give one per axis")
        return self.cells


@final
class Uniform(BoundedScalar):
    """A number uniform in [low, high]."""


@final
class Integer(BoundedScalar):
    """A whole number from low to high, both included, one as likely as another."""

    def __post_init__(self) -> None:
        """See the base class."""
        super().__post_init__()
        for key, value in (("low", self.low), ("high", self.high)):
            if value != int(value) or abs(value) > _LARGEST:
                raise ValueError(f"{key}: {value:g} is not a whole number up to {_LARGEST:,}")
            object.__setattr__(self, key, int(value))

    @property
    def middle(self) -> float:
        """See the base class; a whole number."""
        return (self.low + self.high) // 2


@final
class LogUniform(BoundedScalar):
    """A positive number whose logarithm is uniform between those of low and high."""

    def __post_init__(self) -> None:
        """See the base class."""
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"low: {self.low:g} is not positive, as log_uniform needs")


@final
@dataclass(frozen=True)
class Normal(Distribution):
    """A normally distributed number of this mean and standard deviation."""

    mean: float
    std: float
    scalar = True
    derivatives = math.inf

    def __post_init__(self) -> None:
        """See the base class."""
        super().__post_init__()
        if self.std <= 0:
            raise ValueError(f"std: {self.std:g} is not positive")

    @property
    def middle(self) -> float:
        """See the base class."""
        return self.mean

    @property
    def reach(self) -> tuple[float, ...]:
        """See the base class."""
        return (self.mean - _SIGMAS * self.std, self.mean + _SIGMAS * self.std)

    @property
    def mean_is_zero(self) -> bool:
        """See the base class: each sample is its own mean."""
        return False


@final
@dataclass(frozen=True)
class Constant(Distribution):
    """The same number in every draw."""

    value: float
    scalar = True
    derivatives = math.inf

    @property
    def extremes(self) -> tuple[float, ...]:
        """See the base class."""
        return (self.value,)


@final
@dataclass(frozen=True)
class FromFile(Distribution):
    """Functions stored on a grid in a file; a draw picks one of them.

    They are as smooth as their interpolant, a cubic spline: two continuous derivatives.

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
    derivatives = 2.0


@final
@dataclass(frozen=True)
class History(Distribution):
    """The solution itself up to a time: observe a past, predict the rest.

    Each point of space is observed with the values of every unknown at even times after the start,
    of which ``until`` is the last: ten of them up to 10 are 1, 2, …, 10 where time starts at 0. How
    smooth the solution is is not known here.

    Attributes:
        until: End of the past, in the units of time; inside the time domain.
        times: How many times are observed.
    """

    until: float
    times: int = 1


@final
@dataclass(frozen=True)
class FromData(Distribution):
    """Functions that come with their solutions, in a data set, and are drawn from no distribution.

    How smooth the data are is not known here.

    Attributes:
        noise: Levels of noise that they are observed with, drawn for each sample; fractions of the
            standard deviation of the data. Empty for the data as they are.
    """

    noise: tuple[float, ...] = ()

    @property
    def noise_levels(self) -> tuple[float, ...]:
        """See the base class."""
        return self.noise


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
NAMES: dict[type, str] = {kind: name for name, kind in DISTRIBUTIONS.items()}
