"""Point sets in the unit cube, a different one for each sample of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from piop.sampling.random import Draws

_SOBOL_BITS = 30
_WORD = 0xFFFFFFFF


def unit_points(draws: Draws, lane: str, count: int, dimension: int, method: str) -> Tensor:
    """Place points in (0, 1)^dimension.

    Args:
        draws: Where the randomness comes from.
        lane: Its name.
        count: N, points per sample.
        dimension: D.
        method: ``uniform`` (or ``random``), ``latin_hypercube`` or ``sobol``.

    Returns:
        ``[B, N, D]`` float64.

    Raises:
        ValueError: If the method is unknown or the count is not positive.
    """
    if count < 1:
        raise ValueError(f"count: {count} is not positive")
    if method not in DESIGNS:
        raise ValueError(f"{method!r} is not a way to place points; one of {', '.join(DESIGNS)}")
    return DESIGNS[method](draws, lane, count, dimension)


def _uniform(draws: Draws, lane: str, count: int, dimension: int) -> Tensor:
    return draws.uniform(lane, count, dimension)


def _latin_hypercube(draws: Draws, lane: str, count: int, dimension: int) -> Tensor:
    """One point in each of ``count`` equal slices of every axis (McKay, Beckman & Conover 1979)."""
    slices = draws.permutation(f"{lane}/order", count, dimension)
    within = draws.uniform(f"{lane}/within", dimension, count)
    return ((slices + within) / count).transpose(1, 2)


def _sobol(draws: Draws, lane: str, count: int, dimension: int) -> Tensor:
    """Sobol points, each sample and axis with its own nested uniform scramble.

    Source: Sobol 1967; Owen 1995; the scramble by hashing is Burley 2020, "Practical hash-based
    Owen scrambling", JCGT 9(4), Sec. 3.
    """
    engine = torch.quasirandom.SobolEngine(max(1, dimension), scramble=False)
    plain = engine.draw(count, dtype=torch.float64)[:, :dimension] * 2**_SOBOL_BITS
    digits = plain.long().to(draws.index.device) << (32 - _SOBOL_BITS)
    seeds = draws.integers(f"{lane}/scramble", 0, _WORD, 1, dimension)
    scrambled = _reverse(_hash_upwards(_reverse(digits)[None], seeds))
    return (scrambled.double() + draws.uniform(f"{lane}/within", count, dimension)) / 2.0**32


def _hash_upwards(x: Tensor, seed: Tensor) -> Tensor:
    """Hash so that every bit depends on lower ones only (Laine & Karras 2011, as Burley)."""
    x = (x + seed) & _WORD
    for constant in (0x6C50B47C, 0xB82F1E52, 0xC7AFE638, 0x8D22F6E6):
        x = x ^ ((x * constant) & _WORD)
    return x


def _reverse(x: Tensor) -> Tensor:
    """Reverse the order of 32 bits."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = ((x >> shift) & mask) | ((x & mask) << shift)
    return ((x >> 16) | (x << 16)) & _WORD


DESIGNS = {
    "uniform": _uniform,
    "random": _uniform,
    "latin_hypercube": _latin_hypercube,
    "sobol": _sobol,
}


def scale_to_box(unit: Tensor, low: list[float], high: list[float]) -> Tensor:
    """Map ``[..., D]`` from the unit cube to a box."""
    start, end = (torch.tensor(v, dtype=unit.dtype, device=unit.device) for v in (low, high))
    return start + (end - start) * unit
