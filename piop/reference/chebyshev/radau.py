"""Coefficients of Radau IIA, by its collocation conditions."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.polynomial import chebyshev, legendre
from torch import Tensor

_ROUGH = 0.1  # ratio of the last two coefficients to the two before, from which none are to come


@final
class Radau:
    """Coefficients of one number of stages.

    Args:
        stages: That number.

    Attributes:
        nodes: c ``[s]``, the last one 1.
        inverse: A^{-1} ``[s, s]``.
        shifts: Eigenvalues of A^{-1}, one of each conjugate pair, real ones as real numbers.
        into: Rows of T^{-1} for those, ``[s', s]`` complex.
        back: Columns of T for those, doubled for pairs, ``[s, s']`` complex.
        leading: Weights ``[4, s + 1]`` over 0 and the nodes that give the last four Chebyshev
            coefficients of the collocation polynomial on the step, the highest one last.
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages
        series = np.zeros(stages + 1)
        series[stages - 1 :] = -1.0, 1.0
        c = (np.sort(legendre.legroots(series).real) + 1) / 2
        c[-1] = 1.0
        self.nodes: list[float] = c.tolist()
        powers = np.arange(1, stages + 1)
        # Σ_j a_ij c_j^(k−1) = c_i^k / k, k = 1 … s: polynomials of degree s − 1 are integrated.
        a = np.linalg.solve((c[:, None] ** (powers - 1)).T, (c[:, None] ** powers / powers).T).T
        inverse = np.linalg.inv(a)
        self.inverse = torch.tensor(inverse)
        values, vectors = np.linalg.eig(inverse)
        kept = [i for i, v in enumerate(values) if v.imag > -1e-9]
        real = [abs(values[i].imag) < 1e-9 for i in kept]
        self.shifts: list[complex | float] = [
            float(values[i].real) if r else complex(values[i])
            for i, r in zip(kept, real, strict=True)
        ]
        self.into = torch.tensor(np.linalg.inv(vectors)[kept], dtype=torch.complex128)
        back = vectors[:, kept] * np.where(real, 1.0, 2.0)
        self.back = torch.tensor(back, dtype=torch.complex128)
        points = 2 * np.array([0.0, *c]) - 1
        self.leading = torch.tensor(np.linalg.inv(chebyshev.chebvander(points, stages))[-4:])

    def step_error(self, leading: Tensor) -> Tensor:
        """Estimate the error of a step from sizes of the leading coefficients ``[…, 4]``.

        It is the coefficient two orders above the highest, if all fall alike from one on. At a
        kink, and where a pulse begins in the last part of a step, they hardly fall: then it is that
        of the time derivative, about ten times the coefficient.
        """
        below, top = leading.unflatten(-1, (2, 2)).amax(-1).unbind(-1)
        fall = top / below.clamp_min(1e-300)
        rough = 10 * top * (fall / _ROUGH).clamp(max=1.0) ** 3
        return torch.maximum(rough, leading[..., -1] ** (1 + 2 / self.stages))
