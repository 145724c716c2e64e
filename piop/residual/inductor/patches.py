"""Parts of Inductor that are replaced while it compiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy as sp


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute that is there another value in a block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def expanded(expression: Any) -> Any:
    """Multiply out a polynomial; simplify anything else.

    Indices of memory are polynomials in the indices of loops and, where axes are merged, in
    quotients and remainders of these (``FloorDiv``, ``ModularIndexing``), which SymPy takes as
    functions that it knows nothing of.
    """
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    def is_plain(atom: Any) -> bool:
        if isinstance(atom, sp.Pow):
            return bool(atom.exp.is_Integer and atom.exp.is_positive)
        return isinstance(atom, FloorDiv | ModularIndexing)

    atoms = expression.atoms(sp.Function, sp.Pow)
    if isinstance(expression, sp.Expr) and all(map(is_plain, atoms)):
        return sp.expand(expression)
    return sp.simplify(expression)


@contextmanager
def quick_indices() -> Iterator[None]:
    """Simplify indices of memory by :func:`expanded` while Inductor generates code."""
    from torch._inductor import sizevars

    class Quick:
        """SymPy, but for ``simplify``."""

        simplify = staticmethod(expanded)

        def __getattr__(self, name: str) -> Any:
            return getattr(sp, name)

    with replaced(sizevars, "sympy", Quick()):
        yield


@contextmanager
def quick_types() -> Iterator[None]:
    """Let Inductor set up its rules for types once, and not at every operation, in a block."""
    from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

    DtypePropagationOpsHandler()  # there is one of them
    with replaced(DtypePropagationOpsHandler, "__init__", lambda self: None):
        yield
