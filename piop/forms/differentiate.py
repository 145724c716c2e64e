"""Derivatives of compound expressions, carried out by the rules of calculus and nothing else.

``Derivative.doit`` of SymPy re-evaluates everything it meets (comparisons of polynomials inside
``Max`` among others), whose cost is not bounded. Here each rule is applied once, and an expression
that grows too large is refused. At a kink of ``min``, ``max`` or ``abs`` the derivative is the mean
of both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Derivative, Expr

from piop.expression.functions import BY_SYMBOL, is_applied
from piop.expression.quantity import merge

_MAX_RULES = 5_000  # applied to one equation
_MAX_NODES = 5_000  # operations and operands of one equation
_LARGE = 20  # operations and operands of an argument that is not simplified
EXTREMES = (sympy.Min, sympy.Max)


def differentiate(expr: Expr) -> Expr:
    """Carry out every derivative of anything but an unknown or an input.

    Raises:
        ArithmeticError: If the result would be too large, or a derivative exists at no point that
            matters, as the second one of ``abs``.
    """
    return _Differentiator().carry_out(expr)


def partial(expr: Expr, atom: Expr) -> Expr:
    """The derivative by an unknown, or by a derivative of one, as if all of them were independent.

    That of ``sign`` is zero, as it is almost everywhere.

    Raises:
        ArithmeticError: If the result would be too large.
    """
    return gradient(expr, (atom,))[0]


def gradient(expr: Expr, atoms: Sequence[Expr]) -> tuple[Expr, ...]:
    """The derivative by each of several atoms; see `partial`."""
    rules = _Differentiator(across_jumps=True)
    return tuple(rules.along(expr, atom) for atom in atoms)


def substitute(expr: Expr, values: Mapping[Any, Any]) -> Expr:
    """Put values in place of parts as ``xreplace`` does, without evaluating large functions.

    SymPy does not know that a derivative of a real function is real: where one takes the place of a
    real symbol, it expands the arguments of functions into real and imaginary parts.
    """
    rules, known = _Differentiator(), dict(values)

    def replaced(part: Any) -> Any:
        if part not in known:
            arguments = [replaced(a) for a in part.args]
            known[part] = part if arguments == [*part.args] else rules.rebuild(part, arguments)
        return known[part]

    return replaced(expr)


class _Differentiator:
    """One equation's worth of rules, each applied once to the same expression."""

    def __init__(self, across_jumps: bool = False) -> None:
        self.across_jumps = across_jumps
        self.slopes: dict[Expr, dict[Any, Expr]] = {}
        self.parts: dict[Any, frozenset[Any]] = {}
        self.sizes: dict[Any, int] = {}

    def carry_out(self, expr: Any) -> Expr:
        """Replace derivatives of compound expressions, innermost first."""
        if not expr.has(Derivative):
            return expr
        if expr.is_Derivative and is_applied(expr.expr):  # an input may not depend on all
            return expr if expr.expr.free_symbols.issuperset(expr.variables) else sympy.S.Zero
        if expr.is_Derivative:
            result = self.carry_out(expr.expr)
            for symbol in expr.variables:
                result = self.along(result, symbol)
                if (size := self.size(result)) > _MAX_NODES:
                    raise ArithmeticError(
                        f"too large after differentiation: {size} operations and operands, at "
                        f"most {_MAX_NODES}"
                    )
            return result
        if expr.is_Piecewise:
            return _piecewise([(self.carry_out(e), self._condition(c)) for e, c in expr.args])
        return self.rebuild(expr, [self.carry_out(a) for a in expr.args])

    def rebuild(self, expr: Any, arguments: list[Any]) -> Any:
        """Put other arguments in; SymPy asks for the sign of large ones for seconds, in vain."""
        if expr.is_Piecewise:
            return _piecewise([pair.args for pair in arguments])
        if expr.is_Relational:
            return expr.func(*arguments, evaluate=False)
        large = expr.is_Function and max(map(self.size, arguments)) > _LARGE
        if large or expr.func in EXTREMES:
            return expr.func(*arguments, evaluate=False)
        return expr.func(*arguments)

    def size(self, expr: Any) -> int:
        """Count operations and operands."""
        if expr not in self.sizes:
            self.sizes[expr] = 1 + sum(map(self.size, expr.args))
        return self.sizes[expr]

    def _condition(self, condition: Any) -> Any:
        if not condition.has(Derivative):
            return condition
        return self.rebuild(condition, [self.carry_out(a) for a in condition.args])

    def along(self, expr: Any, x: Expr) -> Expr:
        """The derivative along a coordinate, or by an atom taken as independent."""
        if x not in self.atoms(expr):
            return sympy.S.Zero
        known = self.slopes.setdefault(x, {})
        if expr not in known:
            if len(known) > _MAX_RULES:
                raise ArithmeticError(f"differentiation takes more than {_MAX_RULES} rules")
            known[expr] = self._along(expr, x)
        return known[expr]

    def atoms(self, expr: Any) -> frozenset[Any]:
        """Everything in an expression that it may be differentiated by."""
        if expr not in self.parts:
            own = {expr} if expr.is_Symbol or expr.is_Derivative or is_applied(expr) else ()
            self.parts[expr] = frozenset(own).union(*map(self.atoms, expr.args))
        return self.parts[expr]

    def _along(self, expr: Any, x: Expr) -> Expr:
        if expr == x:
            return sympy.S.One
        if is_applied(expr) or expr.is_Derivative:
            return merge(expr, [x]) if x.is_Symbol else sympy.S.Zero
        if expr.is_Add:
            return sympy.Add(*[self.along(a, x) for a in expr.args])
        if expr.is_Mul:
            parts = expr.args
            slopes = [(i, self.along(a, x)) for i, a in enumerate(parts)]
            products = [sympy.Mul(*parts[:i], d, *parts[i + 1 :]) for i, d in slopes if d]
            return sympy.Add(*products)
        if expr.is_Pow:
            return self._power(expr, x)
        if expr.func in EXTREMES:
            return self._extreme(expr, x)
        if expr.is_Piecewise:
            return _piecewise([(self.along(e, x), c) for e, c in expr.args])
        function = BY_SYMBOL.get(expr.func)
        if function is None or function.slope is None:
            raise ArithmeticError(f"{expr.func.__name__} has no derivative")
        if function.smoothness == 0 and not self.across_jumps:
            raise ArithmeticError(f"{function.word} has no derivative where it jumps")
        return function.slope(expr.args[0]) * self.along(expr.args[0], x)

    def _power(self, expr: Any, x: Expr) -> Expr:
        base, exponent = expr.args
        slope, growth = self.along(base, x), self.along(exponent, x)
        if growth == 0:
            return exponent * base ** (exponent - 1) * slope
        rest = growth * sympy.log(base)
        return expr * (rest + exponent * slope / base)

    def _extreme(self, expr: Any, x: Expr) -> Expr:
        first, *others = sorted(expr.args, key=sympy.default_sort_key)
        second = others[0] if len(others) == 1 else expr.func(*others, evaluate=False)
        a, b = self.along(first, x), self.along(second, x)
        lead = sympy.sign(first - second)
        toward = 1 if expr.func == sympy.Max else -1
        return (a + b) / 2 + toward * lead * (a - b) / 2


def _piecewise(branches: list[tuple[Expr, Any]]) -> Expr:
    if len({value for value, _ in branches}) == 1:
        return branches[0][0]
    return sympy.Piecewise(*branches, evaluate=False)
