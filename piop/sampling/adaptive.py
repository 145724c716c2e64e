"""Points where the residual is large, chosen from candidates without replacement."""

from __future__ import annotations

from torch import Tensor

from piop.sampling.random import Draws


def residual_density(sizes: Tensor, power: float, floor: float) -> Tensor:
    """Give each candidate its probability, ~ |r|^k / mean |r|^k + c.

    Args:
        sizes: |r| at the candidates ``[B, K]``, dimensionless.
        power: k.
        floor: c, which keeps places alive where the residual vanishes.

    Returns:
        ``[B, K]`` float64 with sum one for each sample; all the same where nothing differs.

    Source: Wu, Zhu, Tan, Kartha & Lu 2023, eq. 2 (10.1016/j.cma.2022.115671, 2207.10289).
    """
    weights = sizes.double() ** power
    mean = weights.mean(-1, keepdim=True)
    density = (weights / mean).nan_to_num(nan=1.0) + floor
    return density / density.sum(-1, keepdim=True)


def choose_by_density(draws: Draws, lane: str, density: Tensor, count: int) -> Tensor:
    """Draw candidates one after the other without replacement, with these probabilities.

    The ``count`` largest of log p + Gumbel noise are distributed as such draws.

    Args:
        draws: Where the randomness comes from.
        lane: Its name.
        density: ``[B, K]``, positive or zero.
        count: N, at most K.

    Returns:
        Numbers of candidates, int64 ``[B, N]``, in the order in which they would be drawn.

    Source: Vieira 2014; Kool, van Hoof & Welling 2019 (1903.06059), the Gumbel-top-k trick.
    """
    noise = -(-draws.uniform(lane, density.shape[-1]).log()).log()
    return (density.double().log() + noise).topk(count, dim=-1).indices
