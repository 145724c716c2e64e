"""Which operations a network runs, and the equation that its streams are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from piop.forms.streams import plan_expressions
from piop.models.core.base import Signature
from piop.residual import Residual


class _Recorder(TorchDispatchMode):
    """Notes operations on complex numbers and Fourier transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if "fft" in func.name() or any(tensor.is_complex() for tensor in tensors):
            self.refused.add(func.name())
        return out


@contextmanager
def complex_operations() -> Iterator[set[str]]:
    """Collect the names of operations that ONNX lacks: Fourier transforms and complex numbers."""
    with _Recorder() as recorder:
        yield recorder.refused


def residual_for(signature: Signature, order: int = 2) -> Residual:
    """Compile equations that take derivatives of every channel along every coordinate.

    Each channel has first derivatives, a product with the next channel, mixed and second
    derivatives, each times lengths of the axes to their orders, so that all weigh alike.

    Args:
        signature: The shapes; names of coordinates are not used.
        order: Order of one more derivative, along the last axis.
    """
    symbols = [sympy.Symbol(f"x_{i}", real=True) for i in range(len(signature.coordinates))]
    lengths = [axis.high - axis.low for axis in signature.coordinates]
    channels = [f"u_{c}" for c in range(signature.channels)]
    functions = [sympy.Function(name, real=True)(*symbols) for name in channels]
    residuals = []
    for c, u in enumerate(functions):
        slopes = [size * sympy.Derivative(u, s) for s, size in zip(symbols, lengths, strict=True)]
        total = sum(slopes) + functions[(c + 1) % len(functions)] * slopes[-1]
        for s, size in zip(symbols, lengths, strict=True):
            total += size**2 * sympy.Derivative(u, s, 2) / 2
        mixed = lengths[0] * lengths[-1] * sympy.Derivative(u, symbols[0], symbols[-1])
        top = lengths[-1] ** order * sympy.Derivative(u, symbols[-1], order)
        residuals.append(total + mixed + top)
    return Residual(plan_expressions(residuals, symbols, channels), residuals, ())
