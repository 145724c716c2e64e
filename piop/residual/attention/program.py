"""The sums that attention of streams needs, as short lists of products, and the tensors they meet.

Row r of e^z is e^z·w_r with w_0 = 1 and w_r = z_r + Σ factor · coefficient · z_i z_j …, a
polynomial in the rows of the scores that a plan fixes (``docs/math.md``, 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from piop.forms.streams import MAX_ORDER
from piop.residual.streams import StreamLayout


@dataclass(frozen=True)
class StreamProduct:
    """One product, added to a row: factor · coefficient · lead · Π members.

    Attributes:
        target: The row it is added to.
        lead: The row of the first factor.
        slot: Which coefficient of the points multiplies it; -1 for none.
        factor: The number in front.
        members: Rows of scores multiplied besides.
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
class AttentionProgram:
    """What a plan adds to the rows of scores, and the derivative of that.

    Attributes:
        count: S, the number of rows.
        slots: K, the number of coefficients that differ from point to point.
        terms: What w_r holds beside z_r; ``lead`` is a row of scores.
    """

    count: int
    slots: int
    terms: tuple[StreamProduct, ...]

    @classmethod
    def of(cls, layout: StreamLayout) -> AttentionProgram:
        """Read the compositions of a layout."""
        terms = [
            StreamProduct(
                r, key[0], -1 if group.slot is None else group.slot, group.factor, key[1:]
            )
            for r, groups in enumerate(layout.compositions)
            for group in groups
            for key in group.rows
            if r > 0
        ]
        slots = 1 + max((t.slot for t in terms), default=-1)
        return cls(layout.count, slots, tuple(terms))

    @cached_property
    def slopes(self) -> tuple[StreamProduct, ...]:
        """Σ_r a_r ∂w_r/∂z_i beyond a_i: ``lead`` is the row of a, ``target`` is i."""
        found = []
        for term in self.terms:
            key = (term.lead, *term.members)
            for row in sorted(set(key)):
                others = list(key)
                others.remove(row)
                factor = term.factor * key.count(row)
                found.append(StreamProduct(row, term.target, term.slot, factor, tuple(others)))
        return tuple(found)

    def encoded(self) -> tuple[list[int], list[float]]:
        """Give it as plain lists, which is what an operation of torch can be told."""
        numbers: list[int] = []
        for p in self.terms:
            row = [p.target, p.lead, p.slot, *p.members]
            numbers += row + [-1] * (WIDTH - len(row))
        return numbers, [p.factor for p in self.terms]

    @classmethod
    def decoded(
        cls, count: int, numbers: Sequence[int], factors: Sequence[float]
    ) -> AttentionProgram:
        """Read what :meth:`encoded` gave."""
        terms = []
        for i, factor in enumerate(factors):
            target, lead, slot, *members = numbers[i * WIDTH : (i + 1) * WIDTH]
            terms.append(
                StreamProduct(target, lead, slot, factor, tuple(m for m in members if m >= 0))
            )
        return cls(count, 1 + max((t.slot for t in terms), default=-1), tuple(terms))


WIDTH = 2 + MAX_ORDER
"""Whole numbers by which one product is encoded; places left over hold -1."""


@dataclass(frozen=True)
class Operands:
    """What attention of streams reads.

    Attributes:
        query: Rows of the queries ``[S, *batch, N, d]``.
        key: ``[*batch, M, d]``.
        value: ``[*batch, M, e]``.
        mask: Added to the scores of every query ``[*batch, 1, M]``, or None.
        weights: Coefficients of the points ``[K, *batch, N]``, or None where all are numbers.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    weights: Tensor | None
