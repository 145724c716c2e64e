"""The atoms of an expression: applied functions, such as u(t, x), and their derivatives."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Derivative, Expr
from sympy.core.function import AppliedUndef


def applied(atom: Any) -> Any:
    """The applied function of an atom: itself, or what it differentiates."""
    return atom.expr if isinstance(atom, Derivative) else atom


def name_of(atom: Any) -> str:
    """Name of an atom's function, as in the spec."""
    return applied(atom).func.__name__


def derivative_counts(atom: Any) -> dict[Any, int]:
    """How often an atom is differentiated by each coordinate."""
    if not isinstance(atom, Derivative):
        return {}
    return {variable: int(count) for variable, count in atom.variable_count}  # type: ignore[misc]


def argument_order(atom: Any) -> tuple[int, ...]:
    """How often an atom is differentiated by each argument of its function."""
    count = derivative_counts(atom)
    return tuple(count.get(s, 0) for s in applied(atom).args)


def outermost_atoms(expression: Any) -> list[Any]:
    """The atoms in the order met, each once: a derivative hides the function inside it.

    Example:
        >>> x = sympy.Symbol("x")
        >>> u = sympy.Function("u")(x)
        >>> outermost_atoms(u.diff(x) ** 2 + sympy.sin(x))
        [Derivative(u(x), x)]
    """
    found: dict[Expr, None] = {}
    walk = sympy.preorder_traversal(expression)
    for node in walk:
        if isinstance(node, Derivative | AppliedUndef):
            walk.skip()
            found[node] = None
    return list(found)
