"""Rules by which streams pass through torch's operations; importing the files fills the table.

A new rule is one function, registered by :func:`piop.residual.streams.rule` in the file of its
kind, and one case of ``tests/residual/test_streams.py``.
"""

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
