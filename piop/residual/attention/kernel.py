"""Input of the attention kernels, and the choice of a kernel for the device of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from piop.errors import UsageError
from piop.forms.stream_plan import MAX_ORDER, product_slopes
from piop.residual.stream_tensor import StreamLayout


@dataclass(frozen=True)
class ScoreMonomial:
    """One product, added to a stream: factor · coefficient · lead · Π members.

    Attributes:
        target: The stream it is added to.
        lead: The stream of the first factor.
        slot: Which coefficient of the points multiplies it; -1 for none.
        factor: The number in front.
        members: Streams of scores that multiply it besides.
    """

    target: int
    lead: int
    slot: int
    factor: float
    members: tuple[int, ...]

    def flat(self) -> tuple[int | float, ...]:
        """Give it as a tuple of numbers, as a Triton kernel reads it."""
        return (self.target, self.lead, self.slot, self.factor, *self.members)


@dataclass(frozen=True)
class ScorePolynomials:
    """What a plan adds to the streams of scores, and the derivative of that.

    Attributes:
        count: S, the number of streams.
        terms: The products of w_r beside z_r; ``lead`` is a stream of scores.
    """

    count: int
    terms: tuple[ScoreMonomial, ...]

    @classmethod
    def of(cls, layout: StreamLayout) -> ScorePolynomials:
        """Read the compositions of a layout."""
        terms = (
            ScoreMonomial(r, lead, -1 if g.slot is None else g.slot, g.factor, tuple(members))
            for r, groups in enumerate(layout.compositions)
            for g in groups
            for lead, *members in g.products
            if r > 0
        )
        return cls(layout.count, tuple(terms))

    @property
    def slots(self) -> int:
        """K, the number of coefficients that differ from point to point."""
        return 1 + max((term.slot for term in self.terms), default=-1)

    @cached_property
    def slopes(self) -> tuple[ScoreMonomial, ...]:
        """Σ_r a_r ∂w_r/∂z_i beyond a_i: ``lead`` is the stream of a, ``target`` is i."""
        return tuple(
            ScoreMonomial(stream, term.target, term.slot, factor, others)
            for term in self.terms
            for stream, others, factor in product_slopes((term.lead, *term.members), term.factor)
        )

    def encoded(self) -> tuple[list[int], list[float]]:
        """Return plain lists, which an operation of torch takes as arguments."""
        rows = [(p.target, p.lead, p.slot, *p.members) for p in self.terms]
        numbers = [n for row in rows for n in (*row, *[-1] * (ENCODED_WIDTH - len(row)))]
        return numbers, [p.factor for p in self.terms]

    @classmethod
    def decoded(
        cls, count: int, numbers: Sequence[int], factors: Sequence[float]
    ) -> ScorePolynomials:
        """Read what :meth:`encoded` gave."""
        terms = []
        for i, factor in enumerate(factors):
            target, lead, slot, *members = numbers[i * ENCODED_WIDTH : (i + 1) * ENCODED_WIDTH]
            used = tuple(m for m in members if m >= 0)
            terms.append(ScoreMonomial(target, lead, slot, factor, used))
        return cls(count, tuple(terms))


ENCODED_WIDTH = 2 + MAX_ORDER
"""Whole numbers by which one product is encoded; unused ones are -1."""


class AttentionOperands(NamedTuple):
    """What attention of streams reads.

    Attributes:
        query: Streams of the queries ``[S, *batch, N, d]``.
        key: ``[*batch, M, d]``.
        value: ``[*batch, M, e]``.
        mask: Added to the scores of every query ``[*batch, 1, M]``, or None.
        coefficients: Coefficients of the points ``[K, *batch, N]``, or None where all are numbers.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    coefficients: Tensor | None


Kernel = Callable[[AttentionOperands, ScorePolynomials], Tensor]
"""Sums the streams of e^z [v | 1] over the sensors, as :func:`~.online.online_totals` does."""


def choose_kernel(name: str, device: str) -> Kernel | None:
    """Find a kernel by its name.

    Args:
        name: ``torch`` or ``triton``.
        device: ``cpu`` or ``cuda``.

    Returns:
        The kernel; None for plain torch operations.

    Raises:
        UsageError: If the name is unknown, or the machine lacks what the kernel needs.
    """
    if name == "torch":
        return None
    if name != "triton":
        raise UsageError(f"kernel: {name!r} is not one of torch, triton")
    missing = missing_for_triton(device)
    if missing:
        raise UsageError(f"kernel: triton needs {missing}; leave kernel at torch, or provide it")
    from piop.residual.attention.fused import fused_totals

    return fused_totals


def missing_for_triton(device: str = "cuda") -> str | None:
    """Say what a machine lacks for the Triton kernel, None where nothing is missing.

    Args:
        device: The device of the run.
    """
    if device != "cuda":
        return f"a CUDA device, and this run is on {device!r} (--device cuda)"
    if not torch.cuda.is_available():
        return f"a CUDA device, and torch {torch.__version__} finds none here"
    if find_spec("triton") is None:
        return "the package triton, which is not installed here (pip install triton)"
    major, minor = torch.cuda.get_device_capability()
    if major < OLDEST_CAPABILITY:
        least = f"compute capability {OLDEST_CAPABILITY}.0 or newer"
        return f"{least}, and this device has {major}.{minor}"
    return None


OLDEST_CAPABILITY = 8
"""Compute capability from which Triton serves a device."""
