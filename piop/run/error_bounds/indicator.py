"""Indicators of the error of one prediction, fitted to what is measured from its sensors alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import torch
from torch import Tensor

from piop.datasets.lazy_arrays import COARSE_DIFFERENCE, RESIDUAL
from piop.run.error_bounds.coarse_solution import CoarseLevels

FEWEST = 10
"""Inputs that the power of an indicator is chosen on at least."""
LEAST_CORRELATION = 0.3
"""Correlation of the logarithms of residual and error below which the residual says nothing."""
MOST_POWER = 1.5


@final
@dataclass(frozen=True)
class Measurement:
    """What was measured of the predictions of B inputs, and how.

    Attributes:
        sizes: The residual of each equation, or the relative error of each unknown, to first order
            or against a coarse solution ``[B, E]`` float64; infinite where it is not known.
        lattice: Of linearised equations, see
            :func:`piop.run.error_bounds.linearised_error.choose_lattice`; empty without.
        coarse: How far coarse solutions are refined; None without.
    """

    sizes: Tensor
    lattice: tuple[int, ...] = ()
    coarse: CoarseLevels | None = None

    @property
    def relative(self) -> bool:
        """Whether sizes are relative errors, not residuals in units of their own."""
        return bool(self.lattice) or self.coarse is not None

    def take(self, index: Tensor) -> Measurement:
        """Return what was measured of these inputs."""
        return replace(self, sizes=self.sizes[index])

    def agreement(self, errors: Tensor) -> float:
        """Return the correlation of the logarithms of sizes and errors ``[B]``; 0 for too few."""
        known = self._known(errors)
        units = self._units(known)
        if int(known.sum()) < FEWEST or not bool((units > 0).all()):
            return 0.0
        x, y = _logarithms(self.sizes[known] / units, errors[known])
        spread = x.square().sum() * y.square().sum()
        return float((x * y).sum() / spread.sqrt()) if spread > 0 else 0.0

    def fit(self, errors: Tensor) -> Indicator:
        """Return the power of the sizes that follows errors ``[B]`` best, in logarithms."""
        known = self._known(errors)
        units = self._units(known)
        size = _mean_size(self.sizes[known] / units)
        x, y = _logarithms(self.sizes[known] / units, errors[known])
        power = min(float((x * y).sum() / x.square().sum()), MOST_POWER)
        factor = float((errors[known].log() - power * size.log()).mean().exp())
        least = float(size.min()) / 2
        return Indicator(tuple(units.tolist()), power, factor, least, self.lattice, self.coarse)

    def _known(self, errors: Tensor) -> Tensor:
        return self.sizes.isfinite().all(1) & errors.isfinite() & (errors > 0)

    def _units(self, known: Tensor) -> Tensor:
        """Return the size of each equation's residual that counts as one ``[E]``."""
        units = self.sizes[known].square().mean(0).sqrt()
        return torch.ones_like(units) if self.relative else units


@final
@dataclass(frozen=True)
class Indicator:
    """A typical error, from what is measured of an input: factor · sizeᵖᵒʷᵉʳ.

    Attributes:
        units: Size of each equation's residual that counts as one ``[E]``; 1 for relative errors;
            empty where nothing is measured, and the indicator the same for all inputs.
        power: 0 for the same indicator for all inputs.
        factor: Relative L2 error at a size of one.
        least: Size below which a smaller one says nothing more.
        lattice: Of the residual, see :class:`Measurement`.
        coarse: How far coarse solutions are refined; None where residuals are measured.
    """

    units: tuple[float, ...]
    power: float
    factor: float
    least: float
    lattice: tuple[int, ...] = ()
    coarse: CoarseLevels | None = None

    @classmethod
    def choose(cls, measured: Sequence[Measurement], errors: Tensor) -> Indicator:
        """Fit an indicator to some inputs, which the quantile of scores must not come from.

        Args:
            measured: What may tell the error; what agrees with it best is taken.
            errors: Relative L2 errors of the inputs ``[n]``.
        """
        best = max(measured, key=lambda own: own.agreement(errors), default=None)
        if best is None or best.agreement(errors) < LEAST_CORRELATION:
            positive = errors[errors.isfinite() & (errors > 0)]
            typical = float(positive.log().mean().exp()) if len(positive) else 1.0
            return cls((), 0.0, typical, 0.0)
        return best.fit(errors)

    @property
    def is_constant(self) -> bool:
        """Whether it is the same for all inputs."""
        return self.power <= 0

    @property
    def variable(self) -> str:
        """The variable of a prediction that says what was measured."""
        return RESIDUAL if self.coarse is None else COARSE_DIFFERENCE

    def sizes_among(self, measured: Sequence[Measurement]) -> Tensor | None:
        """Return what it is made of ``[B, E]``; None where it is the same for all inputs."""
        own = (m.sizes for m in measured if (m.lattice, m.coarse) == (self.lattice, self.coarse))
        return None if self.is_constant else next(own)

    def __call__(self, sizes: Tensor | None, batch: int) -> Tensor:
        """Return the indicator of each of B inputs ``[B]``.

        Args:
            sizes: As measured ``[B, E]``, where it is not the same for all inputs.
            batch: B.
        """
        if self.is_constant or sizes is None:
            return torch.full((batch,), self.factor, dtype=torch.float64)
        return self.factor * self.relative_size(sizes).clamp(min=self.least) ** self.power

    def relative_size(self, sizes: Tensor) -> Tensor:
        """Return sizes ``[B, E]`` relative to their units, of all equations together ``[B]``."""
        return _mean_size(sizes / sizes.new_tensor(self.units))

    def to_json(self) -> dict[str, Any]:
        """Return what ``calibration.json`` holds."""
        kind = "none" if self.is_constant else self.variable
        own = {"units": list(self.units), "power": self.power, "least": self.least}
        own |= {"lattice": list(self.lattice)}
        own |= {"coarse": None if self.coarse is None else self.coarse.to_json()}
        return {"kind": kind, "factor": self.factor, **own}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned; older calibrations know no coarse solutions."""
        units, lattice = tuple(found["units"]), tuple(found["lattice"])
        coarse = found.get("coarse")
        own = None if coarse is None else CoarseLevels.from_json(coarse)
        return cls(units, found["power"], found["factor"], found["least"], lattice, own)


def _mean_size(relative: Tensor) -> Tensor:
    return relative.square().mean(1).sqrt()


def _logarithms(relative: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithms of sizes and errors, each less its mean."""
    x, y = _mean_size(relative).log(), errors.log()
    return x - x.mean(), y - y.mean()
