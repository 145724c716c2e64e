"""How streams pass through torch: one file per kind of rule; importing them fills the table."""

from piop.residual.rules import (
    attention,
    elementwise,
    linear,
    normal,
    piecewise,
    reduce,
    shape,
    softmax,
)

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
