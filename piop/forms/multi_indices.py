"""Multi-indices and the two product rules of higher order: Faà di Bruno's and Leibniz's.

A multi-index counts derivatives along each coordinate: over ``(t, x)``, ``u_txx`` is ``(1, 2)``.

Source: M. Hardy, Combinatorics of partial derivatives, Electron. J. Combin. 13 (2006) #R1,
https://doi.org/10.37236/1027, Proposition 1 (set partitions) and section 3 (Leibniz).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import comb, prod

Index = tuple[int, ...]


def below(index: Index) -> Iterator[Index]:
    """Yield every multi-index that is component-wise at most ``index``, itself included.

    Example:
        >>> list(below((1, 1)))
        [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    return product(*(range(n + 1) for n in index))


def minus(index: Index, other: Index) -> Index:
    """Subtract component-wise."""
    return tuple(a - b for a, b in zip(index, other, strict=True))


def is_below(index: Index, other: Index) -> bool:
    """Whether ``index`` is component-wise at most ``other``."""
    return all(a <= b for a, b in zip(index, other, strict=True))


def composition_terms(index: Index) -> list[tuple[int, tuple[Index, ...]]]:
    """Partition a derivative of f(u) into the products that multiply f″, f‴, ….

    Args:
        index: The multi-index α of D^α f(u).

    Returns:
        Pairs (multiplicity, blocks):
        D^α f(u) = f′·D^α u + Σ multiplicity · f^(#blocks) · Π D^block u; the sum runs over
        partitions into at least two blocks.

    Example:
        >>> composition_terms((3,))
        [(3, ((1,), (2,))), (1, ((1,), (1,), (1,)))]
    """
    labels = [axis for axis, count in enumerate(index) for _ in range(count)]
    found: Counter[tuple[Index, ...]] = Counter()
    for partition in _set_partitions(labels):
        blocks = [tuple(block.count(axis) for axis in range(len(index))) for block in partition]
        if len(blocks) > 1:
            found[tuple(sorted(blocks, key=lambda b: (sum(b), b)))] += 1
    return [(count, blocks) for blocks, count in sorted(found.items(), key=lambda i: len(i[0]))]


def product_terms(index: Index) -> list[tuple[int, tuple[Index, Index]]]:
    """Split a derivative of a product between its two factors.

    Args:
        index: The multi-index α of D^α(ab).

    Returns:
        Pairs (multiplicity, (β, α − β)) over 0 < β < α:
        D^α(ab) = a·D^α b + b·D^α a + Σ multiplicity · D^β a · D^(α−β) b.

    Example:
        >>> product_terms((2,))
        [(2, ((1,), (1,)))]
    """
    zero = (0,) * len(index)
    return [
        (prod(map(comb, index, part)), (part, minus(index, part)))
        for part in below(index)
        if part not in (zero, index)
    ]


def _set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Yield the partitions of a list of labelled items into non-empty blocks."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for partition in _set_partitions(rest):
        yield [[first], *partition]
        for i, block in enumerate(partition):
            yield [*partition[:i], [first, *block], *partition[i + 1 :]]
