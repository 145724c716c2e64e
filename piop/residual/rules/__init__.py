"""Rules by which streams pass through torch's operations; importing the files fills the table.

A new rule is one function, registered by :func:`piop.residual.stream_tensor.rule` in the file of
its kind, and one case of ``tests/residual/test_streams.py``.
"""

from piop.residual.rules import attention, elementwise, linear, piecewise, reduction, shape

__all__ = ["attention", "elementwise", "linear", "piecewise", "reduction", "shape"]
