"""What the loss is made of, and the weights of its terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LossConfig:
    """What the loss is made of.

    Attributes:
        constraints: Build conditions in where possible (``auto``), everywhere or an error
            (``hard``), nowhere (``soft``).
        relative: Divide the residual of each function by the size of its solution, so that large
            functions do not rule the batch.
        front: Strength of the damping at fronts, dimensionless; 0 for none, as for linear problems.
        residual_weight: Weight of the equations.
        initial_weight: Weight of initial data that are penalised.
        boundary_weight: Weight of boundary conditions that are penalised.
        data_weight: Weight of the data.
    """

    constraints: Literal["auto", "hard", "soft"] = "auto"
    relative: bool = True
    front: float = 0.2
    residual_weight: float = 1.0
    initial_weight: float = 10.0
    boundary_weight: float = 1.0
    data_weight: float = 1.0


@dataclass(frozen=True)
class AdaptiveConfig:
    """Weights that learn while training goes on; they multiply the fixed ones of the loss.

    Attributes:
        weighting: ``fixed`` for none, ``causal`` in time, ``gradient_norm`` or ``ntk`` between the
            terms of the loss, ``ntk_local`` between times, ``residual_attention`` between places.
        causal: Strength ε of the causal weights, dimensionless. Above zero they are added to any
            other weighting; ``weighting=causal`` without it takes 1.
        bins: Time bins of the weights that depend on the time.
        space_bins: Bins of ``residual_attention`` along each axis in space on which the equations
            depend by themselves; along the others all places are alike.
        memory: Share of a running mean that a step, or a measurement, keeps.
        weight_every: Steps between measurements of ``gradient_norm``, ``ntk`` and ``ntk_local``.
        attention_decay: γ of ``residual_attention``.
        attention_rate: η of ``residual_attention``, dimensionless.
    """

    weighting: Literal[
        "fixed", "causal", "gradient_norm", "ntk", "ntk_local", "residual_attention"
    ] = "fixed"
    causal: float = 0.0
    bins: int = 16
    space_bins: int = 8
    memory: float = 0.9
    weight_every: int = 100
    attention_decay: float = 0.999
    attention_rate: float = 0.01
