"""Replaced parts of Inductor give what the originals give."""

import sympy as sp
from torch.utils._sympy.functions import FloorDiv

from piop.residual.inductor.patches import expanded


def test_indices_are_simplified_as_sympy_would():
    x, y = sp.symbols("x y", integer=True, nonnegative=True)
    assert expanded(3 * (x + 2 * y) - 3 * x) == 6 * y
    merged = FloorDiv(x, 4) + FloorDiv(x, 4)
    assert expanded(merged) == sp.simplify(merged)
    assert expanded(sp.sin(x) ** 2 + sp.cos(x) ** 2) == 1
