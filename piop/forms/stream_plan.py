"""Plan of Taylor streams: derivatives propagated one by one, and collapsed sums of the highest.

A stream is one array of numbers pushed forward through a network. An *explicit* stream holds one
derivative D^α of every channel. A *collapsed* stream holds a whole sum s = Σ c_α D^α whose terms
are never needed apart: every rule of differentiation is linear in its highest derivative, so the
sum moves through it as one, provided that all proper sub-derivatives of its terms are explicit.

Source: F. Dangel et al., Collapsing Taylor mode automatic differentiation (2025), arXiv:2505.13644,
section 3; A. Griewank, A. Walther, Evaluating Derivatives (2008), chapter 13.
Faà di Bruno's and Leibniz's rules: M. Hardy,
Combinatorics of partial derivatives, Electron. J. Combin. 13 (2006) #R1,
https://doi.org/10.37236/1027, Proposition 1 (set partitions) and section 3. See ``docs/math.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, product
from math import comb, prod
from typing import Any

import numpy as np
import sympy
from sympy import Basic, Expr, Function, Symbol
from sympy.core.relational import Relational

from piop.errors import NotSupportedError
from piop.expression.functions import JUMPS, evaluate
from piop.forms.differentiate import gradient, substitute
from piop.forms.linear_nonlinear_split import expand
from piop.forms.pde import PDE
from piop.forms.terms import unknown_derivatives

_MOST_EXPANDED = 1000
"""Operations and operands of a coefficient that is expanded."""

Index = tuple[int, ...]
"""A multi-index counts derivatives along each coordinate: over ``(t, x)``, ``u_txx`` is (1, 2)."""


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


MAX_ORDER = 4


Functional = tuple[tuple[Index, Expr], ...]
"""A sum of derivatives Σ c_α D^α as pairs (α, c_α), the coefficients free of unknowns: of numbers,
coordinates, inputs and parameters."""


def product_slopes(
    streams: tuple[int, ...], factor: float
) -> Iterator[tuple[int, tuple[int, ...], float]]:
    """Differentiate factor · Π streams by each stream i: yield i, the streams left, the factor."""
    for i in sorted(set(streams)):
        place = streams.index(i)
        yield i, streams[:place] + streams[place + 1 :], factor * streams.count(i)


@dataclass(frozen=True)
class ProductGroup:
    """Products in the rule of a stream, factor · coefficient · Π streams, that share all but these.

    Attributes:
        order: How many streams are multiplied.
        factor: The number in front.
        slot: Number of the one of ``StreamPlan.coefficients`` that multiplies it; None without one.
        products: The products, each as the numbers of its streams; in a Leibniz rule exactly (that
            of a, that of b).
    """

    order: int
    factor: float
    slot: int | None
    products: tuple[tuple[int, ...], ...]

    @property
    def slopes(self) -> Iterator[tuple[int, tuple[int, ...], float]]:
        """Differentiate by each stream i: yield i, the streams left, and the factor."""
        for streams in self.products:
            yield from product_slopes(streams, self.factor)


@dataclass(frozen=True)
class CollapsedTerm:
    """A term of an equation's top part: coefficient · (collapsed stream of a channel)."""

    channel: int
    stream: int
    coefficient: Expr


@dataclass(frozen=True)
class StreamPlan:
    """The streams of a residual and how the residual is put together from them.

    Attributes:
        coordinates: Symbols, in the order of a query's D columns.
        channels: Names of the C channels; all share the streams.
        explicit: Multi-indices of the explicit streams, by order; stream 0 is the value.
        collapsed: The collapsed streams, which follow the explicit ones.
        sums: What each stream holds, explicit or collapsed.
        shares: For each equation, its top part as a combination of collapsed streams.
        remainders: For each equation, everything else, in explicit derivatives.
        coefficients: Coefficients that are no numbers; ``ProductGroup.slot`` is an index into them.
        compositions: For each stream s the terms beyond f′·s(u) in D f(u); f is differentiated as
            often as a term multiplies streams, its group's order.
        products: For each stream s the terms beyond a·s(b) + b·s(a) in D(ab).
    """

    coordinates: tuple[Symbol, ...]
    channels: tuple[str, ...]
    explicit: tuple[Index, ...]
    collapsed: tuple[Functional, ...]
    sums: tuple[Functional, ...]
    shares: tuple[tuple[CollapsedTerm, ...], ...]
    remainders: tuple[Expr, ...]
    coefficients: tuple[Expr, ...]
    compositions: tuple[tuple[ProductGroup, ...], ...]
    products: tuple[tuple[ProductGroup, ...], ...]

    @property
    def count(self) -> int:
        """S, the number of streams."""
        return len(self.explicit) + len(self.collapsed)

    @property
    def top(self) -> tuple[Index, ...]:
        """The multi-indices that occur in collapsed streams."""
        return tuple(dict.fromkeys(index for terms in self.collapsed for index, _ in terms))

    def split(self, counts: Sequence[int]) -> list[StreamPlan]:
        """Divide the equations, in order, among plans of these numbers of them, streams alike."""
        ends = list(accumulate(counts))
        rows = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
        return [
            replace(self, shares=self.shares[own], remainders=self.remainders[own]) for own in rows
        ]

    def describe(self) -> str:
        """Tell the streams in one line, as ``3 streams: u, u_x, collapsed u_t - 0.01*u_xx``."""
        value = ", ".join(self.channels)
        name = value if len(self.channels) == 1 else "d"

        def label(index: Index) -> str:
            letters = "".join(c.name * n for c, n in zip(self.coordinates, index, strict=True))
            return f"{name}_{letters}" if letters else value

        parts = [label(index) for index in self.explicit]
        for functional in self.collapsed:
            total = " + ".join(str(_readable(c) * Symbol(label(i))) for i, c in functional)
            parts.append(f"collapsed {total.replace('+ -', '- ')}")
        plural = "" if self.count == 1 else "s"
        shared = "" if len(self.channels) == 1 else f" shared by {len(self.channels)} channels"
        return f"{self.count} stream{plural}{shared}: {', '.join(parts)}"


def plan_streams(pde: PDE, extra: Iterable[Index] = ()) -> StreamPlan:
    """Plan the streams of the residuals of a PDE.

    Args:
        pde: Its coordinates, channels, residuals and parameters to infer are read.
        extra: Multi-indices wanted as explicit streams besides, as for a boundary condition.

    Raises:
        NotSupportedError: If a derivative is of order five or more.

    Example:
        ``plan_streams(Problem.from_file("burgers").pde).describe()`` is
        ``"3 streams: u, u_x, collapsed u_t - u_xx/100"``.
    """
    symbols = tuple(c.symbol for c in pde.coordinates)
    trained = [Symbol(name, real=True) for name in pde.infer]
    return plan_expressions(pde.residuals, symbols, pde.channels, extra, trained)


def plan_expressions(
    residuals: Sequence[Expr],
    coordinates: Sequence[Symbol],
    channels: Sequence[str],
    extra: Iterable[Index] = (),
    trained: Sequence[Symbol] = (),
) -> StreamPlan:
    """Plan the streams of any expressions in the channels; see :func:`plan_streams`.

    Collapsed streams leave the ``trained`` parameters out: those multiply whole streams afterwards,
    in the shares of the equations, where gradients with respect to them are those of a product.
    """
    symbols, names = tuple(coordinates), tuple(channels)
    zero: Index = (0,) * len(symbols)
    unknowns = _placeholders(residuals, symbols, names)
    stand_ins = {atom: dummy for atom, (_, _, dummy) in unknowns.items()}
    plain = [_exact(substitute(r, stand_ins)) for r in residuals]
    needed = {index for _, index, _ in unknowns.values()} | set(extra) | {zero}
    for index in needed:
        if sum(index) > MAX_ORDER:
            raise NotSupportedError(
                f"a derivative of order {sum(index)} in {symbols}: the residual knows orders up to "
                f"{MAX_ORDER}. Introduce an auxiliary unknown to lower the order."
            )
    linear = _linear_coefficients(plain, unknowns)
    top = [
        index
        for index in _ordered(needed - {*extra, zero})
        if index in linear and not any(index != i and is_below(index, i) for i in needed)
    ]
    rows = {
        (equation, channel, factor): row
        for equation in range(len(plain))
        for channel in range(len(names))
        for factor, row in _by_factor(
            [linear[i].get((equation, channel), sympy.S.Zero) for i in top], trained
        ).items()
    }
    basis, shares = _basis(rows, len(top))
    collapsed = tuple(
        tuple((i, c) for i, c in zip(top, row, strict=True) if c != 0) for row in basis
    )
    kept = (needed - set(top)) | {b for i in top for b in below(i) if b != i}
    explicit = _ordered({b for index in kept for b in below(index)})
    rest = {d: sympy.S.Zero if index in top else a for a, (_, index, d) in unknowns.items()}
    coefficients: dict[Expr, int] = {}
    sums = tuple(((index, sympy.S.One),) for index in explicit) + collapsed
    compositions, products = (
        _rules(split, explicit, sums, coefficients) for split in (composition_terms, product_terms)
    )
    return StreamPlan(
        coordinates=symbols,
        channels=names,
        explicit=explicit,
        collapsed=collapsed,
        sums=sums,
        shares=tuple(
            tuple(
                CollapsedTerm(channel, stream, factor * c)
                for (equation, channel, factor), parts in shares.items()
                if equation == e
                for stream, c in parts
            )
            for e in range(len(plain))
        ),
        remainders=tuple(substitute(p, rest) for p in plain),
        coefficients=tuple(coefficients),
        compositions=compositions,
        products=products,
    )


def split_coefficient(coefficient: Expr) -> tuple[float, Expr | None]:
    """Split c into a number and the rest, which is None where c is a number."""
    number, rest = coefficient.as_coeff_Mul()
    return (float(coefficient), None) if rest.is_number else (float(number), rest)


def _placeholders(
    residuals: Sequence[Expr], symbols: tuple[Symbol, ...], names: tuple[str, ...]
) -> dict[Expr, tuple[int, Index, Symbol]]:
    """Give each unknown and derivative (channel, multi-index, a symbol to stand for it)."""
    found = unknown_derivatives(residuals, symbols, names).items()
    places = {atom: place for atom, place in found if atom.is_Derivative}
    zero = (0,) * len(symbols)
    places |= {Function(n, real=True)(*symbols): (i, zero) for i, n in enumerate(names)}
    return {atom: (*place, sympy.Dummy(real=True)) for atom, place in places.items()}


def _linear_coefficients(
    plain: Sequence[Expr], unknowns: dict[Expr, tuple[int, Index, Symbol]]
) -> dict[Index, dict[tuple[int, int], Expr]]:
    """Find the multi-indices that enter every equation linearly, and their coefficients."""
    dummies = {d for _, _, d in unknowns.values()}
    linear: dict[Index, dict[tuple[int, int], Expr]] = {}
    refused = set()
    for equation, expression in enumerate(plain):
        present = expression.free_symbols
        own = [place for place in unknowns.values() if place[-1] in present]
        slopes = gradient(expression, [dummy for _, _, dummy in own])
        deciding = _deciding(expression)
        for (channel, index, dummy), coefficient in zip(own, slopes, strict=True):
            if dummy in deciding:  # its slope of zero does not tell that it matters
                refused.add(index)
            if index in refused:
                continue
            if coefficient.free_symbols & dummies and _may_cancel(coefficient, dummies):
                coefficient = expand(coefficient)
            if coefficient.free_symbols & dummies:
                refused.add(index)
            linear.setdefault(index, {})[equation, channel] = coefficient
    return {index: found for index, found in linear.items() if index not in refused}


def _deciding(expression: Expr) -> set[Basic]:
    """Symbols on which conditions, and functions that jump, depend."""
    kinds = [kind for kind in JUMPS if kind is not sympy.Piecewise]
    nodes = expression.atoms(Relational, *kinds)
    return {symbol for node in nodes for symbol in node.free_symbols}


def _may_cancel(expression: Expr, symbols: set[Symbol]) -> bool:
    """Whether symbols may cancel when an expression is expanded, which can take minutes.

    Not where it differs between two random places of the symbols, or is undefined there, or is very
    large. A derivative that is wrongly held for nonlinear costs a stream of its own, nothing else.
    """
    if len(list(islice(sympy.preorder_traversal(expression), _MOST_EXPANDED))) == _MOST_EXPANDED:
        return False
    random, values = np.random.default_rng(0), []
    free = sorted(expression.free_symbols, key=sympy.default_sort_key)
    places = {a: 0.5 + random.random() for a in free}
    for _ in range(2):
        places |= {a: 0.5 + random.random() for a in free if a in symbols}
        values.append(float(evaluate(expression, lambda a, at=dict(places): at.get(a, 0.7))))
    return abs(values[0] - values[1]) <= 1e-9 * max(map(abs, values))


def _by_factor(row: Sequence[Expr], trained: Sequence[Symbol]) -> dict[Expr, list[Expr]]:
    """Write a row as Σ factor · row, the rows free of trained parameters; without zero rows."""
    if not any(c.free_symbols & set(trained) for c in row):
        return {sympy.S.One: list(row)} if any(c != 0 for c in row) else {}
    found: dict[Expr, list[Expr]] = {}
    for place, coefficient in enumerate(row):
        for term in sympy.Add.make_args(sympy.expand(coefficient)):
            free, factor = term.as_independent(*trained, as_Add=False)
            found.setdefault(factor, [sympy.S.Zero] * len(row))[place] += free
    return {factor: part for factor, part in found.items() if any(c != 0 for c in part)}


def _basis(
    rows: dict[tuple[int, int, Expr], list[Expr]], width: int
) -> tuple[list[list[Any]], dict[tuple[int, int, Expr], list[tuple[int, Any]]]]:
    """Span the top functionals by as few rows as their rank, without dividing by what may vanish.

    Returns:
        The basis, and for each (equation, channel, factor) its pairs (basis row, coefficient).
    """
    distinct: list[list[Expr]] = []
    for row in rows.values():
        if all(_ratio(row, other) is None for other in distinct):
            distinct.append(row)
    reduced, pivots = sympy.Matrix(len(distinct), width, lambda i, j: distinct[i][j]).rref(_is_zero)
    span = [list(reduced.row(i)) for i in range(len(pivots))]
    if not all(sympy.denom(sympy.together(c)).is_number for row in span for c in row):
        if len(distinct) < width:
            shares = {}
            for key, row in rows.items():
                ratios = ((i, _ratio(row, other)) for i, other in enumerate(distinct))
                shares[key] = [(i, ratio) for i, ratio in ratios if ratio is not None][:1]
            return distinct, shares
        span, pivots = sympy.eye(width).tolist(), range(width)
    shares = {
        key: [(i, row[p]) for i, p in enumerate(pivots) if row[p] != 0] for key, row in rows.items()
    }
    return span, shares


def _is_zero(coefficient: Expr) -> bool:
    """Whether a coefficient vanishes; SymPy's own test tries numbers, and evaluates their text."""
    known = coefficient.is_zero
    return bool(sympy.simplify(coefficient) == 0) if known is None else known


def _ratio(row: list[Expr], other: list[Expr]) -> Expr | None:
    """Give the number r with row = r · other, or None."""
    pivot = next(i for i, c in enumerate(other) if c != 0)
    ratio = sympy.simplify(row[pivot] / other[pivot])
    if not ratio.is_number or ratio == 0:
        return None
    same = all(sympy.simplify(a - ratio * b) == 0 for a, b in zip(row, other, strict=True))
    return ratio if same else None


def _rules(
    split: Callable[[Index], Iterable[tuple[int, tuple[Index, ...]]]],
    explicit: tuple[Index, ...],
    sums: tuple[Functional, ...],
    slots: dict[Expr, int],
) -> tuple[tuple[ProductGroup, ...], ...]:
    """Write the rule of every stream for compositions or for products, filling ``slots``."""
    stream_of = {index: stream for stream, index in enumerate(explicit)}
    rules = []
    for terms in sums:
        groups: dict[tuple[int, float, int | None], list[tuple[int, ...]]] = {}
        for index, coefficient in terms:
            factor, rest = split_coefficient(coefficient)
            slot = None if rest is None else slots.setdefault(rest, len(slots))
            for count, blocks in split(index):
                group = groups.setdefault((len(blocks), factor * count, slot), [])
                group.append(tuple(stream_of[b] for b in blocks))
        rules.append(tuple(ProductGroup(*key, tuple(found)) for key, found in groups.items()))
    return tuple(rules)


def _ordered(indices: Iterable[Index]) -> tuple[Index, ...]:
    """Sort by order, then with earlier coordinates first."""
    return tuple(sorted(indices, key=lambda i: (sum(i), tuple(-n for n in i))))


def _exact(expression: Expr) -> Any:
    """Turn floating-point numbers into the fractions they are, so that ranks are exact."""
    return expression.xreplace({f: sympy.Rational(f) for f in expression.atoms(sympy.Float)})


def _readable(expression: Expr) -> Any:
    """Turn fractions with long denominators back into short decimals, for printing only."""
    long = [r for r in expression.atoms(sympy.Rational) if r.q > 1000]
    return expression.xreplace({r: Symbol(f"{float(r):g}", positive=True) for r in long})
