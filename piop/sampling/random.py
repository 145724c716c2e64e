"""Counter-based random numbers from (seed, stream, step, sample), whatever the batching.

A number is a function of (seed, stream, step, sample index, position), computed by a counter-based
generator: nothing is stored, so a batch may be split in any way, over any number of processes and
on any device, and a resumed run continues where it stopped.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
10.1145/2063384.2063405 (Philox4x32-10, Table 2 and Section 3.3).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from piop.errors import UsageError

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(counter: Sequence[Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Turn four 32-bit counter words and two key words into four random 32-bit words.

    Args:
        counter: Four int64 tensors of one shape (they broadcast), each in [0, 2³²).
        key: Two whole numbers in [0, 2³²).

    Returns:
        Four int64 tensors of that shape, each uniform on [0, 2³²).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # A product of two 32-bit words wraps in int64, but its 64 bits are right: hence the masks.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _MASK) ^ c1 ^ k0,
            p1 & _MASK,
            ((p0 >> 32) & _MASK) ^ c3 ^ k1,
            p0 & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


@final
@dataclass(frozen=True)
class Purpose:
    """What a fixed set of samples is for; sets for different purposes share no random numbers.

    Attributes:
        name: Part of the names of its streams.
        offset: What the first scheme added to the seed instead, so that sets for different purposes
            were the same for some seeds.
    """

    name: str
    offset: int = 0


DATA = Purpose("data")
"""Data sets, and the inputs that :meth:`piop.Problem.sample` gives."""
HELD_OUT = Purpose("held_out", 0x9E3779B9)
"""Inputs that a run is evaluated on."""
COMPARISON = Purpose("comparison")
"""Inputs that given ones are compared with."""
CALIBRATION = Purpose("calibration", 0x3C6EF372)
"""Inputs whose errors say how large those of others are."""
FIRST_SCHEME, NEWEST_SCHEME = 1, 2
"""How purposes are kept apart: by seeds in runs and data sets made before schemes were recorded,
by names since."""


@dataclass(frozen=True)
class Draws:
    """The random numbers of a batch of samples at one step.

    Sample i gets the same numbers whatever else is in the batch. Streams of numbers have names,
    such as ``"input/u0"``, and are independent; the same name gives the same numbers again. What
    training estimates beforehand takes step 0 without a purpose.

    Attributes:
        seed: In [0, 2³²).
        step: Training step, or 0 for a fixed set, in [0, 2³²).
        index: Global number of each sample, int64 ``[B]``, not negative. The numbers are made on
            its device.
        purpose: What the samples are for, a part of the name of every stream.
        steps: Step of each sample, int64 ``[B]``, where those of several steps are drawn at once;
            None where all are of ``step``.

    Raises:
        ValueError: If seed, step or index are out of range, or there is not one step a sample.

    Example:
        >>> whole = Draws(0, 0, torch.arange(4)).uniform("demo", 3)
        >>> last = Draws(0, 0, torch.tensor([3])).uniform("demo", 3)
        >>> bool((whole[3] == last[0]).all())
        True
    """

    seed: int
    step: int
    index: Tensor
    purpose: str = ""
    steps: Tensor | None = None

    def __post_init__(self) -> None:
        for key in ("seed", "step"):
            if not 0 <= getattr(self, key) <= _MASK:
                raise ValueError(f"{key}: {getattr(self, key)} is not in [0, 2**32)")
        if self.index.dtype != torch.int64 or self.index.ndim != 1:
            raise ValueError(
                f"index: expected int64 [B], got {self.index.dtype} {list(self.index.shape)}"
            )
        if self.index.numel() and int(self.index.min()) < 0:
            raise ValueError(f"index: {int(self.index.min())} is negative")
        if self.steps is not None and self.steps.shape != self.index.shape:
            raise ValueError(
                f"steps: {list(self.steps.shape)} are not those of index {list(self.index.shape)}"
            )

    @classmethod
    def of(
        cls, purpose: Purpose, seed: int, samples: Sequence[int], scheme: int = NEWEST_SCHEME
    ) -> Self:
        """Return those of some samples of a fixed set.

        Args:
            purpose: What the set is for.
            seed: Seed of the set.
            samples: Numbers of the samples in it.
            scheme: How purposes are kept apart.

        Raises:
            UsageError: For a scheme that there is none of.
        """
        index = torch.tensor(samples, dtype=torch.int64)
        if scheme == FIRST_SCHEME:
            return cls((seed + purpose.offset) % 2**32, 0, index)
        if scheme == NEWEST_SCHEME:
            return cls(seed, 0, index, purpose.name)
        raise UsageError(f"draws: {scheme} is not one of {FIRST_SCHEME}, {NEWEST_SCHEME}")

    @property
    def batch(self) -> int:
        """B, the number of samples."""
        return self.index.shape[0]

    def uniform(self, stream: str, *shape: int) -> Tensor:
        """Draw from (0, 1), both ends excluded: ``[B, *shape]`` float64, multiples of 2⁻⁵³."""
        size = math.prod(shape)
        block = torch.arange((size + 1) // 2, device=self.index.device)[None]
        index = self.index[:, None]
        step = torch.full_like(index, self.step) if self.steps is None else self.steps[:, None]
        name = f"{self.purpose}/{stream}" if self.purpose else stream
        key = (self.seed, zlib.crc32(name.encode()))
        words = philox((block + 0 * index, index & _MASK, index >> 32, step), key)
        # 52 bits, then half a step: 53 bits would round the largest to 1.
        pairs = [(words[i] << 20) | (words[i + 1] >> 12) for i in (0, 2)]
        bits = torch.stack(pairs, -1).flatten(1)[:, :size]
        return ((bits.double() + 0.5) * 2.0**-52).reshape(self.batch, *shape)

    def normal(self, stream: str, *shape: int) -> Tensor:
        """Draw from the standard normal distribution (Box–Muller): ``[B, *shape]`` float64."""
        size = math.prod(shape)
        u = self.uniform(stream, (size + 1) // 2, 2)
        radius, angle = (-2 * u[..., 0].log()).sqrt(), 2 * math.pi * u[..., 1]
        pairs = torch.stack((radius * angle.cos(), radius * angle.sin()), -1)
        return pairs.flatten(1)[:, :size].reshape(self.batch, *shape)

    def integers(self, stream: str, low: int, high: int, *shape: int) -> Tensor:
        """Draw whole numbers from low to high, both included: ``[B, *shape]`` int64."""
        return low + (self.uniform(stream, *shape) * (high - low + 1)).long()

    def permutation(self, stream: str, count: int, *shape: int) -> Tensor:
        """Draw orders of 0 … count − 1: ``[B, *shape, count]`` int64."""
        return self.uniform(stream, *shape, count).argsort(dim=-1, stable=True)
