"""How the loss is brought down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OptimiserConfig:
    """How the loss is brought down.

    Attributes:
        optimiser: ``soap`` (Vyas et al. 2024), ``muon`` (Jordan et al. 2024) or ``adamw``.
        learning_rate: Peak step size. Muon takes as much as SOAP, AdamW wants about a tenth of it.
        warmup: Share of the budget over which the step size rises from zero.
        final: Step size at the end as a share of the peak; a half cosine leads there.
        weight_decay: Decoupled weight decay per unit of the step size.
        clip: Largest norm of the gradient, which starts near ten; 0 for no limit. Limits of 1 and
            10 and none are not told apart (docs/training.md).
        average: Decay per step of the running mean of the weights that predicts; 0 for none, since
            under a cosine to zero it gained nothing.
        lbfgs: Share of the budget at the end that L-BFGS spends on one frozen batch; 0 for none.
        precondition: Steps between updates of SOAP's eigenbases.
    """

    optimiser: Literal["soap", "muon", "adamw"] = "soap"
    learning_rate: float = 1e-2
    warmup: float = 0.03
    final: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0
    average: float = 0.0
    lbfgs: float = 0.0
    precondition: int = 10
