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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from piop.errors import PiopError
from piop.forms.streams import StreamPlan, StreamTerm


class NoRuleError(PiopError):
    """An operation that streams cannot pass through. It never leaves the residual."""


@dataclass(frozen=True)
class ProductGroup:
    """Products of rows that share their order, factor and coefficient.

    Attributes:
        order: How many rows are multiplied.
        factor: The number in front.
        slot: Which coefficient of the points multiplies it; None for none.
        rows: The products.
    """

    order: int
    factor: float
    slot: int | None
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class StreamLayout:
    """What the rules must know of a plan.

    Attributes:
        count: S, the number of rows.
        order: The highest derivative of an elementwise function that occurs.
        compositions: For each row, its products in D f(u), grouped.
        products: For each row, its products in D(ab), grouped.
        kernel: Sums up attention; None for plain torch operations.
    """

    count: int
    order: int
    compositions: tuple[tuple[ProductGroup, ...], ...]
    products: tuple[tuple[ProductGroup, ...], ...]
    kernel: Callable[..., Tensor] | None = None

    @classmethod
    def of(cls, plan: StreamPlan, kernel: Callable[..., Tensor] | None = None) -> StreamLayout:
        """Gather the terms of a plan into groups."""
        chain = tuple(map(_grouped, plan.compositions))
        order = max((g.order for groups in chain for g in groups), default=1)
        return cls(plan.count, order, chain, tuple(map(_grouped, plan.products)), kernel)


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


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    """Make a method that hands its operands to the rule of a torch function."""

    def call(self: StreamTensor, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        return StreamTensor.__torch_function__(getattr(torch, name), (StreamTensor,), args)

    return call


class StreamTensor:
    """A value with its Taylor rows.

    Args:
        data: ``[S, *shape]``; row 0 is the value.
        layout: The tables of the plan.
        weights: Coefficients that differ from point to point ``[K, *shape]``, usually a strided
            view; None where all are numbers.
    """

    __slots__ = ("data", "layout", "weights")

    def __init__(self, data: Tensor, layout: StreamLayout, weights: Tensor | None = None) -> None:
        self.data, self.layout, self.weights = data, layout, weights

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: Sequence[Any] = (), kwargs: dict | None = None
    ) -> Any:
        found = _RULES.get(func)
        if found is None:
            raise NoRuleError(getattr(func, "__name__", str(func)))
        return found(*args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(Tensor, name, None)
        if not callable(method):
            raise NoRuleError(f"Tensor.{name}")
        return lambda *args, **kwargs: StreamTensor.__torch_function__(
            method, (StreamTensor,), (self, *args), kwargs
        )

    def __repr__(self) -> str:
        return f"Stream({self.layout.count} rows, shape={tuple(self.shape)})"

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.data.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions of the value."""
        return self.data.ndim - 1

    @property
    def dtype(self) -> torch.dtype:
        """Element type."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        """Where the rows live."""
        return self.data.device

    @property
    def requires_grad(self) -> bool:
        """Whether reverse mode follows the rows."""
        return self.data.requires_grad

    @property
    def is_cuda(self) -> bool:
        """Whether the rows live on a CUDA device."""
        return self.data.is_cuda

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
        """Row 0: what the tensor would have been."""
        return self.data[0]

    def size(self, dim: int | None = None) -> Any:
        """As ``Tensor.size``."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """As ``Tensor.dim``."""
        return self.ndim

    def numel(self) -> int:
        """As ``Tensor.numel``, of the value."""
        return self.shape.numel()

    def is_floating_point(self) -> bool:
        """As ``Tensor.is_floating_point``."""
        return self.data.is_floating_point()

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

    def like(self, rows: Tensor) -> StreamTensor:
        """Make a stream of the same points from rows ``[S, B, N, *]`` known otherwise."""
        if rows.shape[0] != self.layout.count:
            raise ValueError(f"{rows.shape[0]} rows for {self.layout.count} streams")
        weights = self.weights
        if weights is not None:
            flat = weights[(..., *(0,) * (self.ndim - 2))]
            weights = flat[(..., *(None,) * (rows.ndim - 3))].expand(-1, *rows.shape[1:])
        return StreamTensor(rows, self.layout, weights)

    def map(self, function: Callable[[Tensor], Tensor]) -> StreamTensor:
        """Apply a linear map that treats all rows, and coefficients, alike, as ``permute`` does."""
        weights = None if self.weights is None else function(self.weights)
        return StreamTensor(function(self.data), self.layout, weights)

    def replace(self, data: Tensor) -> StreamTensor:
        """Keep the coefficients, fitted to the shape of new rows that differ along summed axes."""
        weights = self.weights
        if weights is not None and weights.shape[1:] != data.shape[1:]:
            for axis, (old, new) in enumerate(
                zip(weights.shape[1:], data.shape[1:], strict=True), start=1
            ):
                weights = weights if old == new else weights.narrow(axis, 0, 1)
            weights = weights.expand(-1, *data.shape[1:])
        return StreamTensor(data, self.layout, weights)

    def aligned(self, ndim: int) -> StreamTensor:
        """Insert axes of length one behind the rows, as broadcasting would."""
        if ndim <= self.ndim:
            return self
        ones = (1,) * (ndim - self.ndim)
        return self.map(lambda rows: rows.reshape(rows.shape[0], *ones, *rows.shape[1:]))


def _grouped(terms: tuple[StreamTerm, ...]) -> tuple[ProductGroup, ...]:
    found: dict[tuple[int, float, int | None], list[tuple[int, ...]]] = {}
    for term in terms:
        found.setdefault((len(term.rows), term.factor, term.slot), []).append(term.rows)
    return tuple(ProductGroup(*key, tuple(rows)) for key, rows in found.items())


def merge_streams(rows: Tensor) -> Tensor:
    """Set the rows ``[S, *batch, N, c]`` below each other: ``[*batch, S N, c]``."""
    return rows.movedim(0, -3).flatten(-3, -2)


def streams_times_matrix(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply ``[S, *batch, N, K]`` by ``[*batch, K, M]`` without copying the matrix S times."""
    if matrix.ndim == 2:
        return torch.matmul(rows, matrix)
    count, n = rows.shape[0], rows.shape[-2]
    return torch.matmul(merge_streams(rows), matrix).unflatten(-2, (count, n)).movedim(-3, 0)
