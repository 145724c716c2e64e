"""Tensors that carry Taylor streams: a value and its derivatives, pushed through any torch code.

A :class:`StreamTensor` stands where a tensor stood. Its streams are stacked along a new first axis,
so that a linear map of all of them is one large matrix product. ``__torch_function__`` looks the
operation up in a table of rules (``piop.residual.rules``); an operation without one raises
:class:`NoRuleError`, upon which the residual turns to nested reverse mode.

Source: F. Dangel et al., Collapsing Taylor mode automatic differentiation (2025), arXiv:2505.13644;
A. Griewank, A. Walther, Evaluating Derivatives (2008), tables 13.1 and 13.2. See ``docs/math.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from piop.errors import PiopError
from piop.forms.stream_plan import ProductGroup, StreamPlan


class NoRuleError(PiopError):
    """An operation that streams cannot pass through. It never leaves the residual."""


@dataclass(frozen=True, eq=False)
class StreamLayout:
    """The part of a plan that the rules need.

    Attributes:
        count: S, the number of streams.
        order: The highest derivative of an elementwise function that occurs.
        compositions: For each stream, its products in D f(u), grouped.
        products: For each stream, its products in D(ab), grouped.
        kernel: Computes attention; None for plain torch operations.
    """

    count: int
    order: int
    compositions: tuple[tuple[ProductGroup, ...], ...]
    products: tuple[tuple[ProductGroup, ...], ...]
    kernel: Callable[..., Tensor] | None = None

    @classmethod
    def of(cls, plan: StreamPlan, kernel: Callable[..., Tensor] | None = None) -> StreamLayout:
        """Read the rules of a plan."""
        order = max((g.order for groups in plan.compositions for g in groups), default=1)
        return cls(plan.count, order, plan.compositions, plan.products, kernel)


Rule = Callable[..., Any]
_RULES: dict[Any, Rule] = {}
_NAMESPACES = (torch, torch.Tensor, F, torch.special, torch.linalg)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the functions and methods of torch that bear one of these names."""

    def register(function: Rule) -> Rule:
        for name in names:
            found = [getattr(space, name) for space in _NAMESPACES if hasattr(space, name)]
            if not found:
                raise AttributeError(f"torch has no operation named {name!r}")
            _RULES.update(dict.fromkeys(found, function))
        return function

    return register


@final
@dataclass(frozen=True)
class OperandRule:
    """A rule of two operands, told apart by which of them carry streams.

    Attributes:
        both: (tensor with streams, tensor with streams) → result.
        first: (tensor with streams, constant) → result.
        second: (constant, tensor with streams) → result.
    """

    both: Rule
    first: Rule
    second: Rule

    def __call__(self, a: Any, b: Any, **options: Any) -> StreamTensor:
        """Apply the rule."""
        if not carries_streams(b):
            return self.first(a, b, **options)
        if not carries_streams(a):
            return self.second(a, b, **options)
        return self.both(a, b, **options)


def reflected(function: Rule) -> Rule:
    """Return the function with its two operands exchanged."""
    return lambda a, b, **options: function(b, a, **options)


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    """Make a method that hands its operands to the rule of a torch function."""

    def call(self: StreamTensor, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        return StreamTensor.__torch_function__(getattr(torch, name), (StreamTensor,), args)

    return call


AS_OF_THE_STREAMS = ("dtype", "device", "requires_grad", "is_cuda", "is_floating_point")
"""Attributes of a tensor that are those of all its streams."""


class StreamTensor:
    """A tensor that carries Taylor streams: its value and S − 1 derivatives or sums of them.

    Args:
        data: ``[S, *shape]``; stream 0 is the value.
        layout: The tables of the plan.
        coefficients: Those that differ from point to point ``[K, *shape]``, usually a strided view;
            None where all are numbers.
    """

    def __init__(
        self, data: Tensor, layout: StreamLayout, coefficients: Tensor | None = None
    ) -> None:
        self.data, self.layout, self.coefficients = data, layout, coefficients

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: Sequence[Any] = (), kwargs: dict | None = None
    ) -> Any:
        found = _RULES.get(func)
        if found is None:
            raise NoRuleError(getattr(func, "__name__", str(func)))
        return found(*args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name in AS_OF_THE_STREAMS:
            return getattr(self.data, name)
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(Tensor, name, None)
        if not callable(method):
            raise NoRuleError(f"Tensor.{name}")
        return lambda *args, **kwargs: StreamTensor.__torch_function__(
            method, (StreamTensor,), (self, *args), kwargs
        )

    def __repr__(self) -> str:
        return f"StreamTensor({self.layout.count} streams, shape={tuple(self.shape)})"

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.data.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return len(self.shape)

    @property
    def T(self) -> StreamTensor:
        """Reverse the dimensions, as ``Tensor.T``."""
        return self.permute(*range(self.ndim)[::-1])

    @property
    def mT(self) -> StreamTensor:
        """Swap the last two dimensions."""
        return self.transpose(-1, -2)

    @property
    def value(self) -> Tensor:
        """Stream 0: the tensor without streams."""
        return self.data[0]

    def size(self, dim: int | None = None) -> Any:
        """As ``Tensor.size``."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """As ``Tensor.dim``."""
        return self.ndim

    def numel(self) -> int:
        """As ``Tensor.numel``, of the value."""
        return prod(self.shape)  # torch.Size.numel would fix the sizes of an exported graph

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", reflected=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", reflected=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", reflected=True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", reflected=True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", reflected=True)
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("lt", "le", "gt", "ge"))
    __eq__, __ne__ = _operator("eq"), _operator("ne")  # type: ignore[assignment]
    __neg__, __abs__ = _operator("neg"), _operator("abs")
    __hash__ = object.__hash__

    def __getitem__(self, index: Any) -> Any:
        return StreamTensor.__torch_function__(Tensor.__getitem__, (StreamTensor,), (self, index))

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise NoRuleError("a Python branch on a value")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NoRuleError("assignment into a tensor")

    def like(self, streams: Tensor) -> StreamTensor:
        """Make a tensor at the same points from streams ``[S, B, N, *]`` known otherwise.

        Streams ``[S, 1, N, *]`` of what is the same for all functions are repeated where their
        coefficients differ.
        """
        if streams.shape[0] != self.layout.count:
            raise ValueError(f"{streams.shape[0]} streams given for {self.layout.count}")
        coefficients = self.coefficients
        if coefficients is not None:
            flat = coefficients[(..., *(0,) * (self.ndim - 2))]
            if streams.shape[1] == 1:
                streams = streams.expand(-1, flat.shape[1], *streams.shape[2:])
            spread = flat[(..., *(None,) * (streams.ndim - 3))]
            coefficients = spread.expand(-1, *streams.shape[1:])
        return StreamTensor(streams, self.layout, coefficients)

    def map(self, function: Callable[[Tensor], Tensor]) -> StreamTensor:
        """Apply a linear map that treats all streams, and coefficients, alike, as ``permute``."""
        coefficients = None if self.coefficients is None else function(self.coefficients)
        return StreamTensor(function(self.data), self.layout, coefficients)

    def coefficients_of(self, shape: Sequence[int]) -> Tensor | None:
        """Broadcast the coefficients to a shape, which differs along axes of features alone."""
        coefficients = self.coefficients
        if coefficients is None:
            return None
        for axis, size in enumerate(shape, start=1):
            if coefficients.shape[axis] != size:
                coefficients = coefficients.narrow(axis, 0, 1)
        return coefficients.expand(-1, *shape)

    def replace(self, data: Tensor) -> StreamTensor:
        """Keep the coefficients for new streams, whose shape differs along features alone."""
        return StreamTensor(data, self.layout, self.coefficients_of(data.shape[1:]))

    def aligned(self, ndim: int) -> StreamTensor:
        """Insert axes of length one before those of the value, as broadcasting would."""
        if ndim <= self.ndim:
            return self
        ones = (1,) * (ndim - self.ndim)
        return self.map(lambda data: data.reshape(data.shape[0], *ones, *data.shape[1:]))

    def broadcast(self, shape: Sequence[int]) -> StreamTensor:
        """Broadcast every stream to a shape."""
        return self.aligned(len(shape)).map(lambda data: data.expand(-1, *shape))

    def plus(self, constant: Tensor | float) -> StreamTensor:
        """Add a constant: it has a value but no derivatives."""
        if not isinstance(constant, Tensor):
            if not constant:
                return self
            constant = self.data.new_full((), constant)
        x = self.aligned(constant.ndim)
        shape = torch.broadcast_shapes(x.shape, constant.shape)
        x = x if shape == x.shape else x.broadcast(shape)
        if constant.dtype == x.dtype:
            data: Any = _AddToValue.apply(x.data, constant)
            return x.replace(data)
        value, rest = x.data.split([1, x.layout.count - 1])
        return x.replace(torch.cat([value + constant, rest]))

    def kernel_sums(self, values: Tensor) -> Tensor | None:
        """Sum the streams of e^z [v | 1], z being these; None where z as a whole serves better."""
        return None

    def attend(self, values: Tensor) -> StreamTensor | None:
        """Multiply weights of attention by values; None where a plain product will do."""
        return None


@once_differentiable
def _addition_gradients(ctx: Any, grad: Tensor) -> Any:
    slope = grad[0].sum_to_size(ctx.shape) if ctx.needs_input_grad[1] else None
    return grad, slope


class _AddToValue(torch.autograd.Function):
    """Adds a constant to the value; its gradient is summed over the value alone."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, constant: Tensor) -> Any:
        ctx.shape = constant.shape
        if constant.ndim > 1 and not at_most(8 * constant.numel(), data[0].numel()):
            return torch.cat([data[:1] + constant, data[1:]])
        ndim = data.ndim - 1
        block = constant.reshape(1, *(1,) * (ndim - constant.ndim), *constant.shape)
        pad = (0, 0) * ndim + (0, data.shape[0] - 1)
        return data + torch.nn.functional.pad(block, pad)

    backward: Any = staticmethod(_addition_gradients)


def at_most(size: int, limit: int) -> bool:
    """Compare sizes; False in a graph that is exported for any, which may not depend on one."""
    return not torch.compiler.is_exporting() and size <= limit


def as_tuple(dims: int | Sequence[int]) -> tuple[int, ...]:
    """Read one dimension, or several, as torch's functions take them."""
    return (dims,) if isinstance(dims, int) else tuple(dims)


def carries_streams(x: Any) -> TypeGuard[StreamTensor]:
    """Tell a tensor that carries streams from a constant."""
    return isinstance(x, StreamTensor)


def value_of(x: Any) -> Any:
    """Return the value of a tensor that carries streams; anything else as it is."""
    return x.value if carries_streams(x) else x


def require_constant(operation: str, *operands: Any) -> None:
    """Refuse operands that carry streams.

    Raises:
        NoRuleError: If there is one; ``operation`` says what of.
    """
    if streamed(operands):
        raise NoRuleError(operation)


def streamed(operands: Sequence[Any]) -> list[int]:
    """Find the operands that carry streams, by their numbers."""
    return [i for i, x in enumerate(operands) if carries_streams(x)]


def constant_stream(x: Tensor, like: StreamTensor) -> StreamTensor:
    """Let a constant carry streams, those beyond its value being zero."""
    pad = (0, 0) * x.ndim + (0, like.layout.count - 1)
    coefficients = like.coefficients
    if coefficients is not None:
        coefficients = coefficients.new_zeros(()).expand(coefficients.shape[0], *x.shape)
    return StreamTensor(torch.nn.functional.pad(x[None], pad), like.layout, coefficients)


def align(a: StreamTensor, b: StreamTensor) -> tuple[StreamTensor, StreamTensor]:
    """Align two tensors of the same residual for broadcasting.

    Raises:
        NoRuleError: If they are of different residuals.
    """
    if a.layout is not b.layout:
        raise NoRuleError("an operation on streams of different residuals")
    ndim = max(a.ndim, b.ndim)
    return a.aligned(ndim), b.aligned(ndim)


def times_coefficient(x: Tensor, slot: int | None, coefficients: Tensor | None) -> Tensor:
    """Multiply by a coefficient of the points; by none where ``slot`` is None.

    Raises:
        NoRuleError: If the coefficients were lost on the way.
    """
    if slot is None:
        return x
    if coefficients is None:
        raise NoRuleError("streams that lost their coefficients")
    return x * coefficients[slot]


def merge_streams(data: Tensor) -> Tensor:
    """Let all streams ``[S, *batch, N, c]`` share one axis of points: ``[*batch, S N, c]``."""
    return data.movedim(0, -3).flatten(-3, -2)


def streams_times_matrix(data: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[S, *batch, N, K]`` by ``[*batch, K, M]`` without copying the matrix S times."""
    if matrix.ndim == 2:
        return torch.matmul(data, matrix)
    count, n = data.shape[0], data.shape[-2]
    return torch.matmul(merge_streams(data), matrix).unflatten(-2, (count, n)).movedim(-3, 0)
