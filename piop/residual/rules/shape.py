"""Rules of streams for reshaping, indexing, repeating and concatenating."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from piop.residual.stream_tensor import (
    NoRuleError,
    StreamTensor,
    as_tuple,
    constant_stream,
    require_constant,
    rule,
    streamed,
    value_of,
)


def _up(x: StreamTensor, dim: int) -> int:
    """Turn a dimension of the value into one of the streams."""
    return dim % x.ndim + 1


def _ups(x: StreamTensor, dims: int | Sequence[int]) -> list[int]:
    return [_up(x, d) for d in as_tuple(dims)]


def unpacked(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Accept ``f(2, 3)`` and ``f((2, 3))`` alike."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], Sequence) else tuple(args)


@rule("reshape", "view")
def reshape(x: StreamTensor, *shape: Any) -> StreamTensor:
    """Reshape; a dtype as in ``view(dtype)`` is refused."""
    sizes = unpacked(shape)
    if any(isinstance(n, torch.dtype) for n in sizes):
        raise NoRuleError("view(dtype)")
    return x.map(lambda data: data.reshape(data.shape[0], *sizes))


@rule("reshape_as", "view_as")
def reshape_as(x: StreamTensor, other: Any) -> StreamTensor:
    """Reshape to the shape of another."""
    return reshape(x, tuple(other.shape))


@rule("flatten")
def flatten(x: StreamTensor, start_dim: int = 0, end_dim: int = -1) -> StreamTensor:
    """Merge neighbouring dimensions."""
    return x.map(lambda data: data.flatten(_up(x, start_dim), _up(x, end_dim)))


@rule("permute")
def permute(x: StreamTensor, *dims: Any) -> StreamTensor:
    """Reorder dimensions."""
    order = _ups(x, unpacked(dims))
    return x.map(lambda data: data.permute(0, *order))


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: StreamTensor, dim0: int, dim1: int) -> StreamTensor:
    """Swap two dimensions."""
    return x.map(lambda data: data.transpose(_up(x, dim0), _up(x, dim1)))


@rule("t")
def t(x: StreamTensor) -> StreamTensor:
    """Transpose a matrix."""
    return transpose(x, 0, 1) if x.ndim == 2 else x


@rule("movedim", "moveaxis")
def movedim(x: StreamTensor, source: Any, destination: Any) -> StreamTensor:
    """Move dimensions."""
    sources, targets = _ups(x, source), _ups(x, destination)
    return x.map(lambda data: data.movedim(sources, targets))


@rule("unsqueeze")
def unsqueeze(x: StreamTensor, dim: int) -> StreamTensor:
    """Insert a dimension."""
    return x.map(lambda data: data.unsqueeze(dim % (x.ndim + 1) + 1))


@rule("squeeze")
def squeeze(x: StreamTensor, dim: Any = None) -> StreamTensor:
    """Drop dimensions of length one."""
    dims = _ups(x, range(x.ndim) if dim is None else dim)
    return x.map(lambda data: data.squeeze(tuple(dims)))


@rule("expand", "broadcast_to")
def expand_to(x: StreamTensor, *shape: Any) -> StreamTensor:
    """Broadcast."""
    return x.broadcast(unpacked(shape))


@rule("expand_as")
def expand_as(x: StreamTensor, other: Any) -> StreamTensor:
    """Broadcast to the shape of another."""
    return x.broadcast(tuple(other.shape))


@rule("repeat")
def repeat(x: StreamTensor, *times: Any) -> StreamTensor:
    """Tile."""
    sizes = unpacked(times)
    return x.aligned(len(sizes)).map(lambda data: data.repeat(1, *sizes))


@rule("repeat_interleave")
def repeat_interleave(x: StreamTensor, repeats: Any, dim: int | None = None) -> StreamTensor:
    """Repeat entries along a dimension."""
    if dim is None:
        raise NoRuleError("repeat_interleave without a dimension")
    return x.map(lambda data: data.repeat_interleave(repeats, _up(x, dim)))


@rule("flip")
def flip(x: StreamTensor, *dims: Any) -> StreamTensor:
    """Reverse along dimensions."""
    return x.map(lambda data: data.flip(_ups(x, unpacked(dims))))


@rule("roll")
def roll(x: StreamTensor, shifts: Any, dims: Any) -> StreamTensor:
    """Roll along dimensions."""
    return x.map(lambda data: data.roll(as_tuple(shifts), _ups(x, dims)))


def _along(x: StreamTensor, dim: int, *args: Any, method: str, **options: Any) -> StreamTensor:
    """Apply a method whose first argument is a dimension."""
    return x.map(lambda data: getattr(data, method)(_up(x, dim), *args, **options))


def _parts(x: StreamTensor, *args: Any, method: str, **options: Any) -> tuple[StreamTensor, ...]:
    """Split along a dimension, given last."""
    *sizes, dim = args if len(args) > 1 else (*args, options.pop("dim", 0))

    def split(streams: Tensor) -> Sequence[Tensor]:
        return getattr(streams, method)(*sizes, dim=_up(x, dim), **options)

    data = split(x.data)
    coefficients = [None] * len(data) if x.coefficients is None else split(x.coefficients)
    return tuple(StreamTensor(d, x.layout, w) for d, w in zip(data, coefficients, strict=True))


for _name in ("unflatten", "narrow", "select", "index_select"):
    rule(_name)(partial(_along, method=_name))
for _name in ("split", "chunk", "tensor_split"):
    rule(_name)(partial(_parts, method=_name))


@rule("gather")
def gather(x: StreamTensor, dim: int, index: Tensor) -> StreamTensor:
    """Pick entries by an index that is the same for all streams."""
    return x.map(lambda data: data.gather(_up(x, dim), index.expand(data.shape[0], *index.shape)))


@rule("take_along_dim")
def take_along_dim(x: StreamTensor, indices: Tensor, dim: int) -> StreamTensor:
    """Pick entries by an index, with broadcasting."""
    return x.map(lambda data: data.take_along_dim(indices[None], _up(x, dim)))


@rule("unbind")
def unbind(x: StreamTensor, dim: int = 0) -> tuple[StreamTensor, ...]:
    """Split a dimension into its entries."""
    return tuple(x.select(dim, i) for i in range(x.shape[dim]))


@rule("cat", "concat", "concatenate")
def cat(parts: Sequence[Any], dim: int = 0) -> StreamTensor:
    """Join tensors that carry streams and constants."""
    positions = streamed(parts)
    anchor = parts[positions[0]]
    joined = [
        part if i in positions else constant_stream(part, anchor) for i, part in enumerate(parts)
    ]
    axis = _up(anchor, dim)
    data = torch.cat([x.data for x in joined], axis)
    coefficients = anchor.coefficients
    if coefficients is None or coefficients.stride(axis) == 0 or anchor.shape[axis - 1] == 1:
        return anchor.replace(data)
    each = [x.coefficients for x in joined if x.coefficients is not None]
    return StreamTensor(data, anchor.layout, torch.cat(each, axis))


@rule("stack")
def stack(parts: Sequence[Any], dim: int = 0) -> StreamTensor:
    """Join streams and constants along a new dimension."""
    return cat([torch.unsqueeze(p, dim) for p in parts], dim)


@rule("__getitem__")
def getitem(x: Any, index: Any) -> StreamTensor:
    """Index with slices, integers, None, Ellipsis and constant tensors."""
    key = index if isinstance(index, tuple) else (index,)
    require_constant("indexing by a value that depends on the queries", *key)
    advanced = [i for i, k in enumerate(key) if isinstance(k, Tensor | list)]
    if advanced and advanced[-1] - advanced[0] + 1 != len(advanced):
        raise NoRuleError("indexing by tensors that are no neighbours")
    if any(torch.as_tensor(key[i]).ndim == 0 for i in advanced):
        raise NoRuleError("indexing by a tensor of no dimensions")
    return x.map(lambda data: data[(slice(None), *key)])


@rule("contiguous", "clone")
def contiguous(x: StreamTensor, *args: Any, **kwargs: Any) -> StreamTensor:
    """Copy into order."""
    return x.replace(x.data.contiguous())


def _cast(x: StreamTensor, *args: Any, method: str, **options: Any) -> StreamTensor:
    return x.map(lambda data: getattr(data, method)(*map(value_of, args), **options))


for _name in ("to", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda"):
    rule(_name)(partial(_cast, method=_name))
