"""Unknowns that follow from the others once these are known, as stresses from displacements."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Symbol

from piop.forms.differentiate import partial
from piop.forms.fluxes import Sorter
from piop.forms.pde import PDE


def recovered_unknowns(pde: PDE) -> dict[int, Expr]:
    """Find the unknowns that their own equation gives by values and slopes of the others.

    One that stands in another equation or in a condition is no such unknown, nor one whose own
    slopes do.

    Returns:
        Channel → what gives it; none where nothing would be left to solve for.
    """
    found: dict[int, Expr] = {}
    functions = [pde.function(n) for n in pde.channels]
    conditions = [e for c in pde.boundary.values() for given in c for e in given.values]
    named = {c.unknown for given in pde.boundary.values() for c in given}
    sorter = Sorter(pde, functions)
    for channel, (name, own) in enumerate(zip(pde.channels, functions, strict=True)):
        residual = pde.residuals[channel]
        others = [r for c, r in enumerate(pde.residuals) if c != channel]
        mark = Symbol(f"own {name}", real=True)
        marked: Any = residual.xreplace({own: mark})
        if name in named or any(e.has(own) for e in (*others, *conditions)) or marked.has(own):
            continue
        if not residual.has(own) or sorter.order(residual) > 1:
            continue
        try:
            factor = partial(marked, mark)
        except ArithmeticError:
            continue
        if not factor.has(mark, *functions) and not factor.is_zero:
            found[channel] = -marked.xreplace({mark: sympy.S.Zero}) / factor
    return {} if len(found) == len(functions) else found
