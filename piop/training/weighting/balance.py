"""From a size of each term to the factors that make the terms equal."""

from __future__ import annotations

from torch import Tensor

GUARD = 1e-5
"""Share of the mean below which a size counts as that, so that no factor exceeds its inverse."""


def balanced(sizes: Tensor) -> Tensor:
    """Give mean(sizes)/sizes ``[K]``; ones where all of them vanish.

    Example:
        >>> import torch
        >>> [round(float(f), 2) for f in balanced(torch.tensor([1.0, 3.0]))]
        [2.0, 0.67]
    """
    mean = sizes.mean()
    return (mean / (sizes + GUARD * mean)).nan_to_num(nan=1.0)


def only(index: int, count: int, like: Tensor) -> Tensor:
    """Give ``[count]`` zeros with a one at ``index``."""
    out = like.new_zeros(count)
    out[index] = 1.0
    return out
