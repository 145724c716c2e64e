"""Radau IIA: collocation in time at the right Radau points, of order 2s − 1 with s stages.

It is stiffly accurate and L-stable, so conditions at walls hold at the end of every step and data
that do not fit them are damped at once. With stage order s, stiffness lowers the order to about
s + 1 at worst, where the walls move in time.

Source: Hairer and Wanner 1996, Solving Ordinary Differential Equations II, secs. IV.5 and IV.8
(doi:10.1007/978-3-642-05221-7). The coefficients are computed, not copied: the points are the zeros
of P_s − P_{s−1} on [−1, 1], mapped to [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import legendre, polynomial
from torch import Tensor


@dataclass(frozen=True)
class Radau:
    """Coefficients of one number of stages.

    Attributes:
        nodes: c ``[s]``, the last one 1.
        inverse: A^{-1} ``[s, s]``.
        shifts: Eigenvalues of A^{-1}, one of each conjugate pair, real ones as real numbers.
        into: Rows of T^{-1} for those, ``[s', s]`` complex.
        back: Columns of T for those, doubled for pairs, ``[s, s']`` complex.
        top: Weights ``[s + 1]`` over 0 and the nodes that give the leading Chebyshev coefficient of
            the collocation polynomial on the step: how well the step is resolved.
    """

    nodes: tuple[float, ...]
    inverse: Tensor
    shifts: tuple[complex | float, ...]
    into: Tensor
    back: Tensor
    top: Tensor

    @property
    def stages(self) -> int:
        """S."""
        return len(self.nodes)


def radau(stages: int) -> Radau:
    """Coefficients of the method with ``stages`` stages."""
    series = np.zeros(stages + 1)
    series[stages - 1 :] = -1.0, 1.0
    c = (np.sort(legendre.legroots(series).real) + 1) / 2
    c[-1] = 1.0
    powers = np.arange(1, stages + 1)
    # Σ_j a_ij c_j^(k−1) = c_i^k / k for k = 1 … s: the polynomials of degree s − 1 are integrated.
    a = np.linalg.solve((c[:, None] ** (powers - 1)).T, (c[:, None] ** powers / powers).T).T
    inverse = np.linalg.inv(a)
    values, vectors = np.linalg.eig(inverse)
    dual = np.linalg.inv(vectors)
    kept = [i for i, v in enumerate(values) if v.imag > -1e-9]
    real = [abs(values[i].imag) < 1e-9 for i in kept]
    shifts = tuple(
        float(values[i].real) if r else complex(values[i]) for i, r in zip(kept, real, strict=True)
    )
    doubled = np.where(real, 1.0, 2.0)
    points = np.concatenate([[0.0], c])
    # Coefficients of powers from values at 0 and the nodes.
    fit = np.linalg.inv(polynomial.polyvander(points, stages))
    top = fit[-1] * 2.0 ** (1 - 2 * stages)
    as_tensor = lambda v: torch.as_tensor(np.ascontiguousarray(v))  # noqa: E731
    return Radau(
        tuple(c.tolist()),
        as_tensor(inverse),
        shifts,
        as_tensor(dual[kept]).to(torch.complex128),
        as_tensor(vectors[:, kept] * doubled).to(torch.complex128),
        as_tensor(top),
    )
