"""Muon for the matrices of a network, AdamW for everything else, as one optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import nn


@final
class Muon:
    """Moves each matrix along the nearest orthogonal one to its momentum, the rest as AdamW does.

    A matrix W of shape m × n follows W ← W − η·0.2·√max(m, n)·O, where O is the polar factor of
    the Nesterov momentum of its gradient, by five Newton–Schulz iterations, which leave singular
    values between 0.7 and 1.2. The factor gives such a step the size of one of AdamW, so one step
    size η serves both. torch runs the iterations in bfloat16: they choose a direction, in which an
    error of a hundredth is no harm; the gradient itself stays as precise as the weights.

    Parameters with other than two axes, and matrices of a single row or column, for which the
    polar factor is just the direction, follow AdamW.

    Args:
        parameters: What is trained.
        learning_rate: η, dimensionless; that of AdamW.
        weight_decay: Decoupled weight decay per unit of η.

    Attributes:
        param_groups: The groups of both, whose ``lr`` a schedule sets.

    Source: Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon/), with the step size of
    Liu et al. 2025, eq. 4 (2502.16982); ``torch.optim.Muon``.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float = 0.0
    ) -> None:
        matrices = [p for p in parameters if is_matrix(p)]
        rest = [p for p in parameters if not is_matrix(p)]
        rate, decay = learning_rate, weight_decay
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            muon = torch.optim.Muon(
                matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
            )
            self.parts.append(muon)
        if rest:
            self.parts.append(torch.optim.AdamW(rest, lr=rate, weight_decay=decay))

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both."""
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        """Move all parameters by their gradients."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Give the momenta of both."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""
        for part, own in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(own)


def is_matrix(parameter: nn.Parameter) -> bool:
    """Tell whether a parameter has a polar factor worth computing.

    Example:
        >>> is_matrix(nn.Parameter(torch.ones(3, 2))), is_matrix(nn.Parameter(torch.ones(1, 2)))
        (True, False)
    """
    return parameter.ndim == 2 and min(parameter.shape) > 1 and not parameter.is_complex()
