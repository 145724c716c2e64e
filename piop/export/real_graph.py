"""A captured graph in real arithmetic alone, with what depends on no input computed beforehand.

Runtimes have no complex numbers, no Fourier transform of real functions and no linear solver. A
complex value becomes a pair of real ones, a transform a product with cosines and sines, and a
system with a constant matrix a product with its inverse.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node, Proxy, Transformer
from torch.utils import _pytree as pytree

from piop.errors import NotSupportedError

aten = torch.ops.aten

Rule = Callable[..., Any]
"""What stands for an operator: a function of its arguments."""


@final
@dataclass(frozen=True)
class ComplexPair:
    """A complex value of a graph.

    Attributes:
        real: Its real part.
        imaginary: Its imaginary part; None for zero.
    """

    real: Any
    imaginary: Any

    @classmethod
    def of(cls, value: Any) -> ComplexPair:
        """Take a pair as it is, split a constant, and complete a real value by zero."""
        if isinstance(value, ComplexPair):
            return value
        if isinstance(value, complex):
            return cls(_number(value.real), _number(value.imag))
        if isinstance(value, Tensor) and value.is_complex():
            return cls(value.real, value.imag)
        return cls(value, None)

    @property
    def dense(self) -> Any:
        """Its imaginary part as a tensor."""
        return self.real * 0 if self.imaginary is None else self.imaginary


def to_real_graph(graph: GraphModule, rules: Mapping[Any, Rule] | None = None) -> GraphModule:
    """Rewrite a graph in real arithmetic, and compute what depends on no input.

    Args:
        graph: Of torch's operators; its inputs and outputs are real.
        rules: Operators that a runtime lacks → what stands for them.

    Returns:
        A graph of the same function of the same inputs.

    Raises:
        NotSupportedError: For an operator of complex numbers that has no rule here.
    """
    found = RealArithmetic(graph, rules or {}).transform()
    found.graph.eliminate_dead_code()
    found.recompile()
    return found


@final
class RealArithmetic(Transformer):
    """Runs a graph on proxies for what depends on inputs, and on tensors for constants.

    Args:
        graph: The graph.
        rules: Operators that a runtime lacks → what stands for them.
    """

    def __init__(self, graph: GraphModule, rules: Mapping[Any, Rule]) -> None:
        super().__init__(graph)
        self._rules = rules
        self._constants: dict[str, Any] = {}

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give the constant itself, so that what follows from it is computed here."""
        if target not in self._constants:
            value = self.fetch_attr(target)
            self._constants[target] = value.detach() if isinstance(value, Tensor) else value
        return self._constants[target]

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator of constants, or write it down, by its rule where it has one."""
        leaves = pytree.tree_leaves((args, kwargs))
        free = any(isinstance(leaf, Proxy) for leaf in _parts(leaves))
        if not free:
            with torch.no_grad():
                return target(*args, **kwargs)
        if target in WITH_CONSTANTS:
            found = WITH_CONSTANTS[target](*args, **kwargs)
            if found is not NotImplemented:
                return found
        if target in self._rules:
            return self._rules[target](*args, **kwargs)
        if target in TRANSFORMS:
            return TRANSFORMS[target](self._shape, *args, **kwargs)
        if self._complex or any(isinstance(leaf, ComplexPair) for leaf in leaves):
            return _complex_rule(target)(*args, **kwargs)
        if target in ARITHMETIC:
            args = tuple(_number(a) if isinstance(a, float) else a for a in args)
        return super().call_function(target, args, kwargs)

    def run_node(self, n: Node) -> Any:
        """Leave out checks of the sizes that were used to capture the graph."""
        value = n.meta.get("val")
        self._complex = isinstance(value, Tensor) and value.is_complex()
        if n.target in TRANSFORMS:
            self._shape = cast("Node", n.args[0]).meta["val"].shape
        return None if n.target in CHECKS else super().run_node(n)


def _number(value: float) -> Tensor:
    """Make a tensor of a number: as an attribute, ONNX would hold it in single precision."""
    return torch.tensor(value, dtype=torch.float64)


ARITHMETIC = {aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor}

CHECKS = {aten._assert_scalar.default, aten.sym_constrain_range_for_size.default,
          aten._assert_tensor_metadata.default, aten.sym_constrain_range.default}  # fmt: skip


def _parts(leaves: Sequence[Any]) -> list[Any]:
    found = []
    for leaf in leaves:
        found += [leaf.real, leaf.imaginary] if isinstance(leaf, ComplexPair) else [leaf]
    return found


def _complex_rule(target: Any) -> Rule:
    if target in COMPLEX:
        return COMPLEX[target]
    raise NotSupportedError(f"the operator {target} of complex numbers has no real form")


def _each_part(target: Any, value: Any, *args: Any, **kwargs: Any) -> ComplexPair:
    """Apply a linear operator of one tensor, or of a list of them, to both parts."""
    if isinstance(value, list | tuple):
        pairs = [ComplexPair.of(v) for v in value]
        real, imaginary = [p.real for p in pairs], [p.dense for p in pairs]
        return ComplexPair(target(real, *args, **kwargs), target(imaginary, *args, **kwargs))
    pair = ComplexPair.of(value)
    real = target(pair.real, *args, **kwargs)
    if pair.imaginary is None:
        return ComplexPair(real, None)
    return ComplexPair(real, target(pair.imaginary, *args, **kwargs))


def _product(multiply: Rule, left: Any, right: Any) -> ComplexPair:
    """Apply a bilinear operator."""
    a, b = ComplexPair.of(left), ComplexPair.of(right)
    real = multiply(a.real, b.real)
    if a.imaginary is None or b.imaginary is None:
        crossed = None
        if b.imaginary is not None:
            crossed = multiply(a.real, b.imaginary)
        elif a.imaginary is not None:
            crossed = multiply(a.imaginary, b.real)
        return ComplexPair(real, crossed)
    return ComplexPair(
        real - multiply(a.imaginary, b.imaginary),
        multiply(a.real, b.imaginary) + multiply(a.imaginary, b.real),
    )


def _einsum(equation: str, operands: Sequence[Any], path: Any = None) -> Any:
    left, right = operands
    return _product(lambda a, b: aten.einsum.default(equation, [a, b]), left, right)


def _sum(combine: Rule, left: Any, right: Any) -> ComplexPair:
    a, b = ComplexPair.of(left), ComplexPair.of(right)
    real = combine(a.real, b.real)
    if b.imaginary is None:
        return ComplexPair(real, a.imaginary)
    return ComplexPair(real, combine(0 if a.imaginary is None else a.imaginary, b.imaginary))


def _exponential(value: Any) -> ComplexPair:
    pair = ComplexPair.of(value)
    size, angle = aten.exp.default(pair.real), pair.imaginary
    if angle is None:
        return ComplexPair(size, None)
    return ComplexPair(size * aten.cos.default(angle), size * aten.sin.default(angle))


def _power(value: Any, exponent: int) -> Any:
    found: Any = ComplexPair(_number(1.0), None)
    for _ in range(exponent):
        found = _product(operator.mul, found, value)
    return found


def _cast(value: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    """Change the precision of both parts; a real dtype keeps the real part alone."""
    pair = ComplexPair.of(value)
    if dtype is None:
        return pair
    part = dtype.to_real()
    real = aten.to.dtype(pair.real, part)
    if not dtype.is_complex:
        return real
    imaginary = pair.imaginary
    return ComplexPair(real, None if imaginary is None else aten.to.dtype(imaginary, part))


def _forward_transform(
    shape: Sequence[Any], value: Any, n: int | None = None, dim: int = -1, norm: str | None = None
) -> ComplexPair:
    """Σ_j x_j exp(−2πi jk/n), k = 0 … n/2, of a real function of this shape along an axis."""
    return _transformed(value, int(shape[dim]), dim, norm, half=True)


def _forward_transforms(
    shape: Sequence[Any],
    value: Any,
    s: Any = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> ComplexPair:
    """Transform a real function along several axes, the last one to half of the waves."""
    *others, last = range(len(shape)) if dim is None else dim
    found = _transformed(value, int(shape[last]), last, norm, half=True)
    for axis in others:
        found = _transformed(found, int(shape[axis]), axis, norm, half=False)
    return found


def _transformed(value: Any, count: int, dim: int, norm: str | None, half: bool) -> ComplexPair:
    modes = torch.arange(count // 2 + 1 if half else count, dtype=torch.float64)
    turns = torch.outer(torch.arange(count, dtype=torch.float64), modes) % count
    angle = turns * (-2 * math.pi / count)
    scale = {None: 1.0, "backward": 1.0, "forward": 1 / count, "ortho": count**-0.5}[norm]
    matrix = ComplexPair(scale * angle.cos(), scale * angle.sin())

    def along(rows: Any, columns: Tensor) -> Any:
        moved = aten.movedim.int(rows, dim, -1)
        return aten.movedim.int(aten.matmul.default(moved, columns), -1, dim)

    return _product(along, value, matrix)


def _solve_constant(matrix: Any, right: Any, *rest: Any, **kwargs: Any) -> Any:
    """Solve with a constant matrix by a product with its inverse."""
    if not isinstance(matrix, Tensor) or kwargs or any(rest):
        return NotImplemented
    return aten.matmul.default(torch.linalg.inv(matrix), right)


def _search_constant(ticks: Any, at: Any, *, right: bool = False, **kwargs: Any) -> Any:
    """Count the ticks below each position, which runtimes do without a search."""
    if not isinstance(ticks, Tensor):
        return NotImplemented
    wide = aten.unsqueeze.default(at, -1)
    below = aten.ge.Tensor(wide, ticks) if right else aten.gt.Tensor(wide, ticks)
    return aten.sum.dim_IntList(aten.to.dtype(below, torch.int64), [-1])


def acos_by_newton(x: Any) -> Any:
    """Arccos in the precision of x, where a runtime has arcsin in single precision alone.

    With φ = arcsin √((1 − |x|)/2) ≤ π/4 it is 2φ, or π − 2φ below zero. Two steps of Newton's
    method for sin φ = y double the digits twice; cos φ is at least 0.7 there.
    """
    y = torch.sqrt((1 - torch.abs(x)) * 0.5)
    angle = aten.asin.default(aten.to.dtype(y, torch.float32))
    angle = aten.to.dtype(angle, torch.float64)
    for _ in range(2):
        angle = angle + (y - torch.sin(angle)) / torch.cos(angle)
    return torch.where(x < 0, _number(math.pi) - 2 * angle, 2 * angle)


def atan_by_newton(x: Any) -> Any:
    """Arctan in the precision of x, where a runtime has it in single precision alone.

    A step of Newton's method for tan φ = x triples the digits: what is missing is
    arctan((x cos φ − sin φ)/(cos φ + x sin φ)), of the size of a rounding.
    """
    rough = aten.atan.default(aten.to.dtype(x, torch.float32))
    angle = aten.type_as.default(rough, x)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    # divided by the larger of 1 and |x|, so that the product stays finite
    size = torch.clamp(torch.abs(x), min=1.0)
    near = x / size
    return angle + (near * cosine - sine / size) / (cosine / size + near * sine)


WITH_CONSTANTS: Mapping[Any, Rule] = {
    aten.linalg_solve.default: _solve_constant,
    aten.searchsorted.Tensor: _search_constant,
}
"""Operator → its rule where one argument is constant."""

TRANSFORMS: Mapping[Any, Rule] = {
    aten.fft_rfft.default: _forward_transform,
    aten.fft_rfftn.default: _forward_transforms,
}

LINEAR = (
    aten.view.default, aten.reshape.default, aten.permute.default, aten.transpose.int,
    aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.dim,
    aten.expand.default, aten.flatten.using_ints, aten.movedim.int, aten.movedim.intlist,
    aten.unflatten.int, aten.sum.dim_IntList, aten.index.Tensor, aten.neg.default,
    aten.cat.default, aten.clone.default, aten.alias.default, aten.mT.default,
    aten.matrix_H.default, aten.contiguous.default, aten.index_select.default, aten.stack.default,
    aten.narrow.default, aten.detach_.default, aten.detach.default, aten.numpy_T.default,
    aten.repeat_interleave.self_int, aten.lift_fresh_copy.default,
)  # fmt: skip
"""Operators that act on both parts of a complex tensor alike."""

COMPLEX: Mapping[Any, Rule] = {
    **{target: partial(_each_part, target) for target in LINEAR},
    aten.mul.Tensor: partial(_product, operator.mul),
    aten.div.Tensor: lambda a, b: _product(operator.mul, a, 1 / b),
    aten.div_.Tensor: lambda a, b: _product(operator.mul, a, 1 / b),
    aten.matmul.default: partial(_product, aten.matmul.default),
    aten.einsum.default: _einsum,
    aten.add.Tensor: partial(_sum, operator.add),
    aten.sub.Tensor: partial(_sum, operator.sub),
    aten.exp.default: _exponential,
    aten.complex.default: ComplexPair,
    aten.pow.Tensor_Scalar: _power,
    aten.real.default: lambda value: ComplexPair.of(value).real,
    aten.imag.default: lambda value: ComplexPair.of(value).dense,
    aten.view_as_real.default: lambda value: aten.stack.default(
        [ComplexPair.of(value).real, ComplexPair.of(value).dense], -1
    ),
    aten.to.dtype: _cast,
    aten._to_copy.default: _cast,
    operator.mul: partial(_product, operator.mul),
}
"""Operator → its rule for pairs."""
