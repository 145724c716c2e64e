"""Text to SymPy and back: the only door through which a formula enters piop.

Nothing is ever executed: a formula is read by Python's own parser into a syntax tree, and the tree
is walked against a whitelist. Limits on length, depth, exponents and growth are enforced before a
SymPy object exists, so that no text can exhaust time or memory.
"""

from piop.expression.parse import Scope, parse, parse_equation
from piop.expression.printing import write
from piop.expression.quantity import Quantity, Scalar, as_number, number
from piop.expression.text_checks import Refusal

__all__ = [
    "Quantity",
    "Refusal",
    "Scalar",
    "Scope",
    "as_number",
    "number",
    "parse",
    "parse_equation",
    "write",
]
