"""Equations typeset as MathML, which browsers show without a library."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, final

from sympy import Basic, Derivative, Expr, Symbol
from sympy.printing.mathml import MathMLPresentationPrinter

from piop.forms.terms import name_of

if TYPE_CHECKING:
    from sympy.core.function import AppliedUndef


def typeset_mathml(*sides: Expr) -> str:
    r"""Write expressions, equal to each other where there are several, as one ``<math>`` element.

    Derivatives are subscripts and functions have no arguments, as in papers. All text is escaped.

    Example:
        >>> typeset_mathml(Symbol("a<b"))
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"><mi>a&lt;b</mi></math>'
    """
    printer = _Typesetter()
    parts = "<mo>=</mo>".join(printer.doprint(side) for side in sides)
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{parts}</math>'


@final
class _Typesetter(MathMLPresentationPrinter):
    """Prints functions as the papers do, u(t, x) as u and its derivatives as u_x."""

    def parenthesize(self, item: Any, level: int, strict: bool = False) -> Any:
        """Leave derivatives, which are subscripts here, without parentheses."""
        if isinstance(item, Derivative) and item.expr.is_Function:
            return self._print(item)
        return super().parenthesize(item, level, strict)

    def _print_Symbol(self, sym: Symbol, style: str = "plain") -> Any:
        return super()._print_Symbol(Symbol(escape(sym.name)), style)  # which it writes as it is

    def _print_AppliedUndef(self, expr: AppliedUndef) -> Any:
        return self._print(Symbol(name_of(expr)))

    def _print_Derivative(self, e: Derivative) -> Any:
        if not e.expr.is_Function:
            return super()._print_Derivative(e)
        found, below = self.dom.createElement("msub"), self.dom.createElement("mrow")
        for variable in e.variables:
            below.appendChild(self._node(variable))
        found.appendChild(self._node(e.expr))
        found.appendChild(below)
        return found

    def _node(self, expression: Basic) -> Any:
        return self._print(expression)
