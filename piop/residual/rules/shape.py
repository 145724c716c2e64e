"""Maps that only move, repeat, join or drop entries: every row, and every coefficient, alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from piop.residual.rules.composition import constant_stream, expand
from piop.residual.streams import NoRuleError, StreamTensor, rule


def _up(x: StreamTensor, dim: int) -> int:
    return dim % x.ndim + 1


def _sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept ``f(2, 3)`` and ``f((2, 3))`` alike."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], Sequence) else tuple(args)


@rule("reshape", "view")
def reshape(x: StreamTensor, *shape: Any) -> StreamTensor:
    """Reshape; a dtype as in ``view(dtype)`` is refused."""
    sizes = _sizes(shape)
    if not all(isinstance(n, int) for n in sizes):
        raise NoRuleError("view(dtype)")
    return x.map(lambda rows: rows.reshape(rows.shape[0], *sizes))


@rule("reshape_as", "view_as")
def reshape_as(x: StreamTensor, other: Any) -> StreamTensor:
    """Reshape to the shape of another."""
    return reshape(x, tuple(other.shape))


@rule("flatten")
def flatten(x: StreamTensor, start_dim: int = 0, end_dim: int = -1) -> StreamTensor:
    """Merge neighbouring dimensions."""
    return x.map(lambda rows: rows.flatten(_up(x, start_dim), _up(x, end_dim)))


@rule("unflatten")
def unflatten(x: StreamTensor, dim: int, sizes: Sequence[int]) -> StreamTensor:
    """Split a dimension."""
    return x.map(lambda rows: rows.unflatten(_up(x, dim), tuple(sizes)))


@rule("permute")
def permute(x: StreamTensor, *dims: Any) -> StreamTensor:
    """Reorder dimensions."""
    order = [_up(x, d) for d in (dims[0] if len(dims) == 1 else dims)]
    return x.map(lambda rows: rows.permute(0, *order))


@rule("transpose", "swapaxes", "swapdims")
def transpose(x: StreamTensor, dim0: int, dim1: int) -> StreamTensor:
    """Swap two dimensions."""
    return x.map(lambda rows: rows.transpose(_up(x, dim0), _up(x, dim1)))


@rule("t")
def t(x: StreamTensor) -> StreamTensor:
    """Transpose a matrix."""
    return transpose(x, 0, 1) if x.ndim == 2 else x


@rule("movedim", "moveaxis")
def movedim(x: StreamTensor, source: Any, destination: Any) -> StreamTensor:
    """Move dimensions."""
    sources, targets = (
        [_up(x, d) for d in ((dims,) if isinstance(dims, int) else dims)]
        for dims in (source, destination)
    )
    return x.map(lambda rows: rows.movedim(sources, targets))


@rule("unsqueeze")
def unsqueeze(x: StreamTensor, dim: int) -> StreamTensor:
    """Insert a dimension."""
    return x.map(lambda rows: rows.unsqueeze(dim % (x.ndim + 1) + 1))


@rule("squeeze")
def squeeze(x: StreamTensor, dim: Any = None) -> StreamTensor:
    """Drop dimensions of length one."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return x.map(lambda rows: rows.squeeze(tuple(_up(x, d) for d in dims)))


@rule("expand", "broadcast_to")
def expand_to(x: StreamTensor, *shape: Any) -> StreamTensor:
    """Broadcast."""
    return expand(x, _sizes(shape))


@rule("expand_as")
def expand_as(x: StreamTensor, other: Any) -> StreamTensor:
    """Broadcast to the shape of another."""
    return expand(x, tuple(other.shape))


@rule("repeat")
def repeat(x: StreamTensor, *times: Any) -> StreamTensor:
    """Tile."""
    sizes = _sizes(times)
    return x.aligned(len(sizes)).map(lambda rows: rows.repeat(1, *sizes))


@rule("repeat_interleave")
def repeat_interleave(x: StreamTensor, repeats: Any, dim: int | None = None) -> StreamTensor:
    """Repeat entries along a dimension."""
    if dim is None:
        raise NoRuleError("repeat_interleave without a dimension")
    return x.map(lambda rows: rows.repeat_interleave(repeats, _up(x, dim)))


@rule("flip")
def flip(x: StreamTensor, *dims: Any) -> StreamTensor:
    """Reverse along dimensions."""
    return x.map(lambda rows: rows.flip([_up(x, d) for d in _sizes(dims)]))


@rule("roll")
def roll(x: StreamTensor, shifts: Any, dims: Any) -> StreamTensor:
    """Roll along dimensions."""
    places = [_up(x, d) for d in ((dims,) if isinstance(dims, int) else dims)]
    amounts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    return x.map(lambda rows: rows.roll(amounts, places))


@rule("narrow")
def narrow(x: StreamTensor, dim: int, start: int, length: int) -> StreamTensor:
    """Keep a range of a dimension."""
    return x.map(lambda rows: rows.narrow(_up(x, dim), start, length))


@rule("select")
def select(x: StreamTensor, dim: int, index: int) -> StreamTensor:
    """Keep one entry of a dimension and drop it."""
    return x.map(lambda rows: rows.select(_up(x, dim), index))


@rule("index_select")
def index_select(x: StreamTensor, dim: int, index: Tensor) -> StreamTensor:
    """Pick entries of a dimension."""
    return x.map(lambda rows: rows.index_select(_up(x, dim), index))


@rule("gather")
def gather(x: StreamTensor, dim: int, index: Tensor) -> StreamTensor:
    """Pick entries by an index that is the same for all rows."""
    return x.map(lambda r: r.gather(_up(x, dim), index.expand(r.shape[0], *index.shape)))


@rule("take_along_dim")
def take_along_dim(x: StreamTensor, indices: Tensor, dim: int) -> StreamTensor:
    """Pick entries by an index, with broadcasting."""
    return x.map(lambda rows: rows.take_along_dim(indices[None], _up(x, dim)))


@rule("unbind")
def unbind(x: StreamTensor, dim: int = 0) -> tuple[StreamTensor, ...]:
    """Split a dimension into its entries."""
    return tuple(select(x, dim, i) for i in range(x.shape[dim]))


@rule("split")
def split(x: StreamTensor, size: Any, dim: int = 0) -> tuple[StreamTensor, ...]:
    """Split into pieces of given sizes."""
    return _pieces(x, lambda rows: rows.split(size, _up(x, dim)))


@rule("chunk")
def chunk(x: StreamTensor, chunks: int, dim: int = 0) -> tuple[StreamTensor, ...]:
    """Split into a number of pieces."""
    return _pieces(x, lambda rows: rows.chunk(chunks, _up(x, dim)))


@rule("tensor_split")
def tensor_split(x: StreamTensor, sections: Any, dim: int = 0) -> tuple[StreamTensor, ...]:
    """Split into nearly equal pieces."""
    return _pieces(x, lambda rows: rows.tensor_split(sections, _up(x, dim)))


@rule("cat", "concat", "concatenate")
def cat(parts: Sequence[Any], dim: int = 0) -> StreamTensor:
    """Join streams and constants; a constant has rows of zeros."""
    streams = _streams(parts)
    anchor = next(s for s, p in zip(streams, parts, strict=True) if isinstance(p, StreamTensor))
    place = _up(anchor, dim)
    data = torch.cat([s.data for s in streams], place)
    if anchor.weights is None:
        return StreamTensor(data, anchor.layout)
    if anchor.weights.stride(place) == 0 or anchor.shape[place - 1] == 1:
        weights = anchor.weights.narrow(place, 0, 1).expand(-1, *data.shape[1:])
    else:
        weights = torch.cat([s.weights for s in streams], place)  # type: ignore[misc]
    return StreamTensor(data, anchor.layout, weights)


@rule("stack")
def stack(parts: Sequence[Any], dim: int = 0) -> StreamTensor:
    """Join streams and constants along a new dimension."""
    return cat([torch.unsqueeze(p, dim) for p in parts], dim)


@rule("__getitem__")
def getitem(x: Any, index: Any) -> StreamTensor:
    """Index with slices, integers, None, Ellipsis and constant tensors."""
    key = index if isinstance(index, tuple) else (index,)
    if not isinstance(x, StreamTensor) or any(isinstance(k, StreamTensor) for k in key):
        raise NoRuleError("indexing by a value that depends on the queries")
    advanced = [i for i, k in enumerate(key) if isinstance(k, Tensor | list)]
    if advanced and advanced[-1] - advanced[0] + 1 != len(advanced):
        raise NoRuleError("indexing by tensors that are no neighbours")
    if any(isinstance(key[i], Tensor) and key[i].ndim == 0 for i in advanced):
        raise NoRuleError("indexing by a tensor of no dimensions")
    return x.map(lambda rows: rows[(slice(None), *key)])


@rule("contiguous", "clone")
def contiguous(x: StreamTensor, *args: Any, **kwargs: Any) -> StreamTensor:
    """Copy into order."""
    return StreamTensor(x.data.contiguous(), x.layout, x.weights)


def _cast(name: str) -> Any:
    def run(x: StreamTensor, *args: Any, **kwargs: Any) -> StreamTensor:
        args = tuple(a.data if isinstance(a, StreamTensor) else a for a in args)
        return x.map(lambda rows: getattr(rows, name)(*args, **kwargs))

    return run


for _name in ("to", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda"):
    rule(_name)(_cast(_name))


def _pieces(x: StreamTensor, function: Any) -> tuple[StreamTensor, ...]:
    data = function(x.data)
    weights = [None] * len(data) if x.weights is None else function(x.weights)
    return tuple(StreamTensor(d, x.layout, w) for d, w in zip(data, weights, strict=True))


def _streams(parts: Sequence[Any]) -> list[StreamTensor]:
    first = next(p for p in parts if isinstance(p, StreamTensor))
    return [p if isinstance(p, StreamTensor) else constant_stream(p, first) for p in parts]
