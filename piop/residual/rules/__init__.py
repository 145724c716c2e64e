"""How streams pass through torch: one file per kind of rule; importing them fills the table."""

from piop.residual.rules import attention, elementwise, linear, piecewise, shape
from piop.residual.rules import attention as softmax
from piop.residual.rules import reduction as normal
from piop.residual.rules import reduction as reduce

__all__ = [
    "attention",
    "elementwise",
    "linear",
    "normal",
    "piecewise",
    "reduce",
    "shape",
    "softmax",
]
