"""Replaced parts of Inductor give what the originals give."""

import sympy as sp
import torch
import torch._inductor.compile_fx
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from piop.residual.inductor.patches import expanded, quick_types


def test_indices_are_simplified_as_sympy_would():
    x, y = sp.symbols("x y", integer=True, nonnegative=True)
    assert expanded(3 * (x + 2 * y) - 3 * x) == 6 * y
    merged = FloorDiv(x, 4) + FloorDiv(x, 4)
    assert expanded(merged) == sp.simplify(merged)
    assert expanded(sp.sin(x) ** 2 + sp.cos(x) ** 2) == 1
    assert expanded(x / (x + 1) + 1 / (x + 1)) == 1


def test_indices_of_merged_axes_are_expanded_to_what_sympy_makes_of_them(monkeypatch):
    x, y = sp.symbols("x y", integer=True, nonnegative=True)
    indices = [
        FloorDiv(x + 9, 8) - FloorDiv(x + 1, 8),
        64 * FloorDiv(x, 4) + ModularIndexing(x, 1, 4) - 64 * FloorDiv(x, 4),
        3 * (ModularIndexing(x + 1, 2, 5) + y) - 3 * (ModularIndexing(x, 2, 5) + y),
        8 * (x + 1 + FloorDiv(y, 3)) - 8 * (x + FloorDiv(y, 3)),
    ]
    expected = [sp.simplify(index) for index in indices]
    monkeypatch.setattr(sp, "simplify", None)  # which takes a hundred times as long
    for index, simple in zip(indices, expected, strict=True):
        assert sp.expand(simple) == expanded(index)


def test_rules_for_types_are_set_up_once_in_a_block():
    rules = DtypePropagationOpsHandler().__dict__
    with quick_types():
        first = dict(rules)
        assert DtypePropagationOpsHandler().__dict__ == first
        assert rules["add"] is first["add"]
    number, fraction = (torch.zeros(2, dtype=t) for t in (torch.int32, torch.float32))
    assert DtypePropagationOpsHandler().add(number, fraction) == torch.float32
    assert rules["add"] is not first["add"]  # the block has ended
