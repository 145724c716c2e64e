"""Terms of equations that vary between the points of a solution, by what the unknowns are there.

A term such as ``exp(-((u - c)/w)**2)`` is narrow in an unknown: where u passes c between two steps,
or between two nodes of a grid, no point shows it. So between two points all that a term depends on
is moved along the straight line from its values at one to those at the other, and the term, now a
function of one number, is enclosed by interval arithmetic on parts of the line, which are halved
until they show what is inside (adaptive subdivision: R. E. Moore, Interval Analysis, 1966, ch. 6).
Polynomials of the unknowns are left out: they are as smooth as these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, final

import sympy
import torch
from sympy import Expr, Symbol
from torch import Tensor

from piop.expression.functions import RELATIONS
from piop.expression_functions import CompiledExpression
from piop.forms.differentiate import partial
from piop.forms.terms import additive_terms, derivative_counts, name_of, outermost_atoms
from piop.intervals import Interval, enclose
from piop.lowering import compile_expressions
from piop.problem import Coordinate, Problem

Read = Callable[[Any], Tensor]
"""Values of a leaf of a term at points ``[B or 1, T or 1, n1 or 1, …, nd or 1]``."""

_DETAIL = 0.01
"""Part of the largest value of a term, met or found so far, that may be hidden."""
_WIDENED = 0.5
"""Part of the range of values at points by which it is widened on either side: between four points
a parabola exceeds it by up to an eighth, a kink by a half."""
_RESOLVED = 0.5
"""Width of an enclosure per value beyond the range from which on the value is the content."""
_ROUNDS = 40
_MOST = 2**14
"""Parts of lines that are halved at a time."""
_SMALL_CHANGE = 0.5
"""Change of the argument of a function such as ``exp``, whose values at both ends show the rest."""
_SMALL_RATIO = 0.25
"""The same for powers and logarithms, relative to the argument."""
_SMOOTH = (sympy.exp, sympy.sin, sympy.cos, sympy.sinh, sympy.cosh, sympy.tanh, sympy.atan)
"""Functions that hardly change while their argument changes by less than one."""
_NEGLIGIBLE = 1e-3
"""Of the tolerance, in a part of a line."""
_EFFECT = 10.0
"""Relative error of a solution per part of an equation that lies between the nodes of its grid."""
_THETA = Symbol("theta", real=True)


@final
class PathTerm:
    """A term of an equation that is no polynomial of unknowns, per time derivative of an unknown.

    Args:
        expression: The term, divided by the coefficient of the time derivative.
        channel: The unknown whose time derivative it is a part of, and how often that unknown is
            differentiated without it; None in an equation without time derivatives.
        row: All terms of its equation but for time derivatives, divided alike.

    Attributes:
        leaves: Unknowns, inputs, derivatives of them, coordinates and scalars that it depends on.
        row_leaves: The same of all terms.
    """

    def __init__(
        self, expression: Expr, channel: tuple[str, int] | None, row: Sequence[Expr]
    ) -> None:
        self.channel = channel
        self.leaves, self._at, (self._bare,) = _with_symbols([expression])
        self.row_leaves, symbols, whole = _with_symbols(row)
        self._steps = [Symbol(f"d{i}", real=True) for i in range(len(self.leaves))]
        self._value = compile_expressions((self._bare,), self._at)
        self._row = compile_expressions(whole, symbols)
        line = {v: v + _THETA * d for v, d in zip(self._at, self._steps, strict=True)}
        self._along = CompiledExpression(self._bare.xreplace(line), (_THETA,))

    def values(self, leaves: Sequence[Tensor]) -> Tensor:
        """The term from values of its leaves."""
        return self._value(leaves)[0]

    def row_size(self, leaves: Sequence[Tensor]) -> Tensor:
        """Sum of the absolute values of all terms of its equation."""
        return sum((v.abs() for v in self._row(leaves)), torch.zeros(()))

    def hidden(
        self,
        leaves: Sequence[Tensor],
        dim: int,
        reach: int,
        largest: Tensor,
        scale: Tensor | None,
        negligible: float,
    ) -> Tensor:
        """Find what points on paths do not show of the term between them.

        Args:
            leaves: Values of the leaves at points, of one number of dimensions, the batch first.
            dim: Along which points follow each other, P of them.
            reach: Points beyond each of two that show what may be between them.
            largest: Largest absolute values met so far ``[B]``; renewed in place.
            scale: What is negligible is relative to ``[B]``; None for ``largest``.
            negligible: Part of that which a part of a line may add to its mean and be left out.

        Returns:
            Mean between a point and the next, that dimension last ``[B, …, P − 1]``.
        """
        whole = [torch.movedim(v, dim, -1) for v in torch.broadcast_tensors(*leaves)]
        shape = (len(largest), *whole[0].shape[1:])
        whole = [v.expand(shape) for v in whole]
        shown = self.values(whole).expand(shape)
        torch.maximum(largest, shown.nan_to_num(0, 0, 0).abs().flatten(1).amax(1), out=largest)
        start, step = [v[..., :-1] for v in whole], [v.diff(dim=-1) for v in whole]
        content = torch.zeros_like(start[0])
        finite = torch.isfinite(shown[..., :-1]) & torch.isfinite(shown[..., 1:])
        lines = (self._steep(start, step) & finite).nonzero(as_tuple=True)
        if len(lines[0]):
            turns = self._turns([v[lines] for v in (*start, *step)])
            lines = tuple(own[turns] for own in lines)
        if len(lines[0]):
            near = torch.arange(-reach, reach + 2, device=shown.device) + lines[-1][:, None]
            points = shown[lines[:-1]].gather(1, near.clamp(0, shown.shape[-1] - 1)).nan_to_num()
            more = _WIDENED * (points.amax(1) - points.amin(1))
            around = Interval(points.amin(1) - more, points.amax(1) + more)
            start, step = ([v[lines] for v in own] for own in (start, step))
            limit = negligible * (largest if scale is None else scale)
            content[lines] = self._search(start, step, around, lines[0], largest, limit)
        return content

    def _steep(self, start: Sequence[Tensor], step: Sequence[Tensor]) -> Tensor:
        """Where a function in the term changes so much that its ends may not show the rest.

        The change of its argument is that of the tangents at both ends.
        """
        end = [a + b for a, b in zip(start, step, strict=True)]
        steep = torch.zeros_like(start[0], dtype=torch.bool)
        if self._changes is None:
            return ~steep
        for own in (start, end):
            found = self._changes([*own, *step])
            for change, allowed in zip(found[::2], found[1::2], strict=True):
                steep = steep | ~(change.abs() <= allowed.abs())
        return steep

    @cached_property
    def _changes(self) -> Callable[[Sequence[Tensor]], Sequence[Tensor]] | None:
        """Change of the argument of each function, and what it may be; None without a rule."""
        pairs: list[Expr] = []
        for node in sympy.preorder_traversal(self._bare):
            for argument, allowed in _arguments(node):
                if argument is None:
                    return None
                both = zip(self._at, self._steps, strict=True)
                pairs += [sympy.Add(*(partial(argument, v) * d for v, d in both)), allowed]
        return compile_expressions(pairs, [*self._at, *self._steps])

    def _turns(self, line: Sequence[Tensor]) -> Tensor:
        """Whether the slope may change its sign on lines ``[m]``; else their ends show all."""
        whole = Interval(torch.zeros_like(line[0]), torch.ones_like(line[0]))
        if self._along.jumps:
            return whole.low == 0
        slope = enclose(self._on_line(line, 1, whole), whole)
        return ~((slope.low >= 0) | (slope.high <= 0)).expand(whole.low.shape)

    def _on_line(self, line: Sequence[Tensor], order: int, theta: Any) -> Any:
        """The term, or its slope, on lines ``[m]`` by their starts and steps, at parts of them."""
        symbols = map(str, (*self._at, *self._steps))
        given = dict(zip(symbols, line, strict=True))
        return self._along((order,), [theta], lambda name, *_: given[name])

    def _search(
        self,
        start: Sequence[Tensor],
        step: Sequence[Tensor],
        shown: Interval,
        sample: Tensor,
        largest: Tensor,
        negligible: Tensor,
    ) -> Tensor:
        """Means on lines ``[m]`` of what is beyond what is shown around them."""
        content = torch.zeros_like(start[0])
        line = torch.arange(len(content), device=content.device)
        low, high = torch.zeros_like(content), torch.ones_like(content)
        for _ in range(_ROUNDS):
            middle, inside = self._enclose([v[line] for v in (*start, *step)], low, high)
            own = sample[line]
            largest.scatter_reduce_(0, own, middle.abs(), "amax")
            bottom, top = shown.low[line], shown.high[line]
            beyond = (torch.maximum(middle - top, bottom - middle)).clamp_min(0)
            most = torch.maximum(inside.high - top, bottom - inside.low)
            length = high - low
            enough = (most <= _DETAIL * largest[own]) | (inside.width <= _RESOLVED * beyond)
            open_ = ~(enough | (most * length <= negligible[own]))
            if int(open_.sum()) > _MOST:
                least = (most * length)[open_].nan_to_num(math.inf).topk(_MOST).values[-1]
                open_ &= most * length >= least
            found = torch.where(most > _DETAIL * largest[own], beyond * length, 0.0)
            content.index_add_(0, line[~open_], found[~open_])
            if not bool(open_.any()):
                return content
            line, low, high = line[open_], low[open_], high[open_]
            centre = 0.5 * (low + high)
            line, low, high = line.repeat(2), torch.cat([low, centre]), torch.cat([centre, high])
        return content

    def _enclose(
        self, line: Sequence[Tensor], low: Tensor, high: Tensor
    ) -> tuple[Tensor, Interval]:
        """Value in the middle of parts of lines ``[m]``, and all values on them.

        By interval arithmetic, by the value in the middle and the slopes (Moore 1966, ch. 6), and,
        where these have one sign, by the ends.
        """
        part, centre = Interval(low, high), 0.5 * (low + high)
        middle = self._on_line(line, 0, centre).nan_to_num().expand(low.shape)
        inside = enclose(self._on_line(line, 0, part), part)
        if not self._along.jumps:
            slope = enclose(self._on_line(line, 1, part), part)
            reach = 0.5 * part.width * slope.size
            inside = inside & Interval(middle - reach, middle + reach)
            ends = self._on_line(line, 0, low), self._on_line(line, 0, high)
            one_way = (slope.low >= 0) | (slope.high <= 0)
            inside = Interval(
                torch.where(one_way, torch.minimum(*ends), inside.low),
                torch.where(one_way, torch.maximum(*ends), inside.high),
            )
        return middle, Interval(
            inside.low.nan_to_num(-math.inf, math.inf, -math.inf),
            inside.high.nan_to_num(math.inf, math.inf, -math.inf),
        )


@final
class StepPaths:
    """What the steps of one run hide.

    Args:
        terms: What may be narrow.
        batch: Number of samples.
        tolerance: Relative error of which a thousandth is left out.
        span: Length of the run (units of time).
        device: Where tensors live.
    """

    def __init__(
        self,
        terms: Sequence[PathTerm],
        batch: int,
        tolerance: float,
        span: float,
        device: torch.device,
    ) -> None:
        self.terms, self.span, self.negligible = terms, span, _NEGLIGIBLE * tolerance
        self.batch = batch
        self.largest = [torch.zeros(batch, dtype=torch.float64, device=device) for _ in terms]

    def missed(
        self,
        read: Read,
        lengths: Tensor,
        reach: int,
        sizes: Callable[[tuple[str, int]], Tensor],
        norm: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Relative error by what points in time do not show between them.

        Args:
            read: Values at these P points.
            lengths: Between each and the next ``[P − 1]`` (units of time).
            reach: See :meth:`PathTerm.hidden`.
            sizes: Unknown and order of its time derivative → size ``[B]``.
            norm: Norm over space ``[…]`` of ``[…, *sizes]``.

        Returns:
            ``[B, P − 1]``, the largest of all terms.
        """
        worst = lengths.new_zeros(self.batch, len(lengths))
        longest = float(lengths.max())
        for term, largest in zip(self.terms, self.largest, strict=True):
            leaves = [read(leaf) for leaf in term.leaves]
            part, size = self.negligible / longest, None
            if term.channel is None:  # an equation of the term itself
                part *= self.span
            else:
                size = sizes(term.channel)
            content = term.hidden(leaves, 1, reach, largest, size, part)
            scale = self.span * largest if size is None else size
            missed = norm(torch.movedim(content, -1, 1)) / scale.clamp_min(1e-300)[:, None]
            worst = torch.maximum(worst, missed * lengths)
        return worst


def between_nodes(
    terms: Sequence[PathTerm],
    read: Read,
    axes: Sequence[tuple[Coordinate, Tensor]],
    batch: int,
    tolerance: float,
) -> Tensor:
    """Bound the relative error of solutions by what the nodes of a grid do not show of terms.

    It is relative to the mean size of all terms of an equation, the largest over all times.

    Args:
        terms: What may be narrow.
        read: Values at the nodes and at some times.
        axes: Those of space with their nodes, ascending.
        batch: Number of samples.
        tolerance: Relative error of which a thousandth is left out.

    Returns:
        ``[B]``.
    """
    worst = torch.zeros(batch, dtype=torch.float64, device=axes[0][1].device)
    weights = [_cells(c, nodes) for c, nodes in axes]

    def mean(values: Tensor, own: Sequence[Tensor]) -> Tensor:
        for weight in reversed(own):
            values = (values * weight).sum(-1)
        return values

    for term in terms:
        size = term.row_size([read(leaf) for leaf in term.row_leaves])
        size = mean(size, weights).amax(1).expand(batch)
        largest = torch.zeros_like(worst)
        leaves = [read(leaf) for leaf in term.leaves]
        for i, (c, nodes) in enumerate(axes):
            along = [_closed(v, i, c, leaf) for leaf, v in zip(term.leaves, leaves, strict=True)]
            content = term.hidden(along, 2 + i, 1, largest, size, _NEGLIGIBLE * tolerance)
            ends = torch.cat([nodes, nodes[:1] + float(c.length)]) if c.periodic else nodes
            others = [*(w for j, w in enumerate(weights) if j != i), ends.diff() / float(c.length)]
            missed = mean(content, others).amax(1)
            part = missed / (size + missed).clamp_min(1e-300)
            worst = torch.maximum(worst, _EFFECT * part)
    return worst


def _cells(c: Coordinate, nodes: Tensor) -> Tensor:
    """Parts of an axis that are nearest to each of its nodes."""
    between = 0.5 * (nodes[1:] + nodes[:-1])
    ends = nodes.new_tensor([float(c.low)]), nodes.new_tensor([float(c.high)])
    return torch.cat([ends[0], between, ends[1]]).diff() / float(c.length)


def _closed(values: Tensor, axis: int, c: Coordinate, leaf: Any) -> Tensor:
    """Values along an axis and, where it is periodic, those at its first node once more."""
    if not c.periodic or values.shape[2 + axis] == 1:
        return values
    first = values.narrow(2 + axis, 0, 1)
    return torch.cat([values, first + float(c.length) if leaf == c.symbol else first], 2 + axis)


def narrow_terms(problem: Problem) -> tuple[PathTerm, ...]:
    """Terms of the equations that may be narrow in an unknown."""
    orders, time = problem.pde.time_order, problem.coordinates[0].symbol
    found = []
    for residual in problem.residuals:
        rates: dict[tuple[str, int], Any] = {}
        still: dict[Any, Any] = {}
        for atom in outermost_atoms(residual) if problem.time is not None else ():
            order = derivative_counts(atom).get(time, 0)
            if order and order == orders.get(name_of(atom), 0):
                rates.setdefault((name_of(atom), order - 1), atom)
                still[atom] = sympy.S.Zero
        terms = additive_terms(residual.xreplace(still))
        for term in terms:
            if not _may_be_narrow(problem, term):
                continue
            for channel, atom in rates.items() or ((None, None),):
                factor = sympy.S.One if atom is None else partial(residual, atom)
                found.append(PathTerm(term / factor, channel, [t / factor for t in terms]))
    return tuple(found)


def _may_be_narrow(problem: Problem, term: Any) -> bool:
    """Whether a term holds an unknown other than in a polynomial."""
    unknowns = {n: sympy.Dummy() for n in outermost_atoms(term) if name_of(n) in problem.channels}
    return bool(unknowns) and not term.xreplace(unknowns).is_polynomial(*unknowns.values())


def _with_symbols(
    expressions: Sequence[Any],
) -> tuple[tuple[Any, ...], list[Symbol], list[Any]]:
    """Replace the leaves of expressions by symbols: the leaves, their symbols, the expressions."""
    atoms = list(dict.fromkeys(a for e in expressions for a in outermost_atoms(e)))
    stand_ins = {a: sympy.Dummy() for a in atoms}
    free = {s for e in expressions for s in e.xreplace(stand_ins).free_symbols}
    leaves = (*atoms, *sorted(free - {*stand_ins.values()}, key=str))
    symbols = [Symbol(f"v{i}", real=True) for i in range(len(leaves))]
    table = dict(zip(leaves, symbols, strict=True))
    return leaves, symbols, [e.xreplace(table) for e in expressions]


def _arguments(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield arguments of a function and how much each may change; no argument without a rule."""
    small, ratio = sympy.Float(_SMALL_CHANGE), sympy.Float(_SMALL_RATIO)
    if isinstance(node, _SMOOTH):
        yield node.args[0], small
    elif node.is_Pow and node.exp.is_number:
        if not (node.exp.is_Integer and node.exp.is_positive):
            yield node.base, ratio * node.base
    elif node.is_Pow and node.base.is_number:
        yield node.exp, small / sympy.log(node.base)
    elif isinstance(node, sympy.log):
        yield node.args[0], ratio * node.args[0]
    elif isinstance(node, (sympy.Abs, sympy.sign)):
        yield node.args[0], node.args[0]
    elif isinstance(node, (sympy.Max, sympy.Min)):
        pairs: Any = combinations(node.args, 2)
        yield from ((a - b, a - b) for a, b in pairs)
    elif type(node) in RELATIONS:
        yield node.lhs - node.rhs, node.lhs - node.rhs
    elif (node.is_Function or node.is_Pow) and not node.is_Piecewise:
        yield None, None
