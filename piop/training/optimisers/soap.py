"""SOAP in float64, with eigenbases that do not depend on rounding."""

from __future__ import annotations

from typing import Any, final

import torch
from pytorch_optimizer import SOAP
from torch import Tensor

DIAGONAL = 1e-4
"""Largest addition to the diagonal of a covariance, as a fraction of its trace: gradients below a
hundredth of the whole keep about the basis of the weights themselves, as in Adam."""


@final
class StableSOAP(SOAP):
    """SOAP in float64, nearly the same however its gradients were summed.

    Covariances of gradients have few large eigenvalues. The basis of the rest is an accident of
    rounding, yet Adam's step in it depends on it: two runs whose gradients differ by 1e-16 differ
    by the whole step size after two steps. A diagonal that rises from 0 to ``DIAGONAL`` fixes
    the basis. The orthogonalisation keeps the precision of the run, where the original takes
    float32.

    Source: Vyas et al. 2024 (2409.11321), algorithm 3 and sec. 4; the diagonal is ours
    (docs/distributed.md).
    """

    @staticmethod
    def get_orthogonal_matrix(mat: Any) -> list[Any]:
        """Find the eigenbases, largest eigenvalue first."""
        return [
            torch.linalg.eigh(separate_eigenvalues(m))[1].flip(1) if len(m) else [] for m in mat
        ]

    def get_orthogonal_matrix_qr(
        self, state: Any, max_precondition_dim: int = 10000, merge_dims: bool = False
    ) -> list[Any]:
        """Improve the eigenbases by one power iteration; second moments follow their order."""
        bases: list[Any] = []
        for axis, (covariance, basis) in enumerate(zip(state["GG"], state["Q"], strict=True)):
            if not len(covariance):
                bases.append([])
                continue
            product = separate_eigenvalues(covariance) @ basis
            order = (basis * product).sum(0).argsort(descending=True)
            state["exp_avg_sq"] = state["exp_avg_sq"].index_select(axis, order)
            bases.append(torch.linalg.qr(product.index_select(1, order))[0])
        return bases


def separate_eigenvalues(covariance: Tensor) -> Tensor:
    """Add a rising diagonal, so that no two small eigenvalues are the same."""
    rise = torch.linspace(0, DIAGONAL, len(covariance)).to(covariance) * covariance.trace()
    return covariance + rise.diag()
