"""Compile the pointwise products of a split system; hoist out what stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr
from torch import Tensor

from piop.forms.atoms import name_of
from piop.forms.evolution import EvolutionSystem, Order, Split
from piop.lowering import compile_expressions


@dataclass(frozen=True)
class PointwiseProducts:
    """The products of one system, compiled: what they read and how to compute them.

    Attributes:
        unknowns: (channel, space order) of each unknown atom.
        inputs: Input atoms with their orders.
        timed: Whether each input atom depends on time.
        static: What does not change in time, computed once from inputs, scalars, space and time.
        compute: Products that move in time, from unknowns, what ``static`` reads, and that.
        still: Those that stand still, from the same; they come after the moving ones.
        products: How many move.
        stills: How many stand still and are no constants.
        constants: How many are the constant 1; they come last.
        moving: Whether anything known (input or time itself) moves in time.
        square: Whether the one that moves is the square of an unknown: done in place.
        degrees: Polynomial degree in the unknowns; None where a product is not a polynomial.
    """

    unknowns: tuple[tuple[int, Order], ...]
    inputs: tuple[tuple[Expr, Order], ...]
    timed: tuple[bool, ...]
    static: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    compute: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    still: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    products: int
    stills: int
    constants: int
    moving: bool
    square: bool
    degrees: tuple[int | None, ...]


def compile_products(problem: Any, split: Split, system: EvolutionSystem) -> PointwiseProducts:
    """Compile a system's products; what depends on neither unknowns nor time is hoisted out."""
    expressions = [p.expression for p in system.products]
    used = set().union(*(set(sympy.preorder_traversal(e)) for e in expressions))
    unknown = [a for a in split.unknown_atoms if a in used]
    inputs = [a for a in split.input_atoms if a in used]
    timed = tuple(problem.time.name in _of(problem, a) for a in inputs)
    stands = {a: sympy.Dummy(real=True) for a in (*unknown, *inputs)}
    bare: list[Any] = [e.xreplace(stands) for e in expressions]
    moving: set[Any] = {stands[a] for a in unknown} | {problem.time.symbol}
    moving |= {stands[a] for a, t in zip(inputs, timed, strict=True) if t}
    hoisted: dict[Any, sympy.Dummy] = {}
    moves = [bool(e.free_symbols & moving) for e in bare]
    short = [_hoist(e, moving, hoisted) for e, m in zip(bare, moves, strict=True) if m]
    fixed = [e for e, m in zip(bare, moves, strict=True) if not m and e != 1]
    scalars = [i.symbol for i in problem.inputs if not i.of]
    known = [*(stands[a] for a in inputs), *scalars, *(c.symbol for c in problem.space)]
    known.append(problem.time.symbol)
    arguments = [*(stands[a] for a in unknown), *known, *hoisted.values()]
    return PointwiseProducts(
        tuple(split.unknown_atoms[a] for a in unknown),
        tuple((a, split.input_atoms[a][1]) for a in inputs),
        timed,
        compile_expressions(tuple(hoisted), tuple(known)),
        compile_expressions(short, tuple(arguments)),
        compile_expressions(fixed, tuple(known)),
        len(short),
        len(fixed),
        len(bare) - len(short) - len(fixed),
        any(timed) or any(problem.time.symbol in e.free_symbols for e in bare),
        len(short) == len(unknown) == 1 and short[0] == stands[unknown[0]] ** 2,
        tuple(_degree(e, [stands[a] for a in unknown]) for e in bare),
    )


def _hoist(expression: Any, moving: set[Any], hoisted: dict[Any, sympy.Dummy]) -> Any:
    """Replace the largest parts that hold nothing moving by symbols to be computed once."""
    if not expression.free_symbols & moving:
        if expression.is_number or expression.is_Symbol:
            return expression
        return hoisted.setdefault(expression, sympy.Dummy(real=True))
    if expression.is_Add or expression.is_Mul:
        fixed, rest = expression.as_independent(*moving, as_Add=expression.is_Add)
        parts = expression.func.make_args(rest)
        parts = [_hoist(p, moving, hoisted) for p in parts] if len(parts) > 1 or fixed else parts
        if fixed == expression.func.identity:
            return expression.func(*parts)
        return expression.func(_hoist(fixed, moving, hoisted), *parts)
    return (
        expression.func(*(_hoist(a, moving, hoisted) for a in expression.args))
        if expression.args
        else expression
    )


def _of(problem: Any, atom: Expr) -> tuple[str, ...]:
    name = name_of(atom)
    return next(tuple(i.of) for i in problem.inputs if i.name == name)


def _degree(expression: Any, unknowns: list[Any]) -> int | None:
    if not unknowns or not expression.is_polynomial(*unknowns):
        return 0 if not expression.free_symbols & set(unknowns) else None
    return int(sympy.Poly(expression, *unknowns).total_degree())
