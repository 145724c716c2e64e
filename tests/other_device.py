"""A second device that needs no hardware: it finds tensors that are on the wrong one.

A tensor on it says that it is on torch's ``meta`` device, has its values in memory nevertheless,
and computes with them there. As on a GPU, an operation takes no tensors of both devices, except
numbers without axes and positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

OTHER = "meta"
MOVES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
TAKES_POSITIONS = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
}


class OtherDeviceTensor(Tensor):
    """A tensor on the other device.

    Args:
        value: Its values, on the CPU.
    """

    def __new__(cls, value: Tensor) -> OtherDeviceTensor:
        own = Tensor._make_wrapper_subclass(
            cls,
            value.shape,
            value.stride(),
            value.storage_offset(),
            dtype=value.dtype,
            device=OTHER,
        )
        own.value = value
        return own

    def __repr__(self) -> str:
        return f"OtherDeviceTensor({self.value})"

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})

    def tolist(self) -> Any:
        return self.value.tolist()

    def new_tensor(self, data, **options):
        return OtherDeviceTensor(self.value.new_tensor(data, **options))

    def __getitem__(self, key):
        return super().__getitem__(_positions(key))

    def __setitem__(self, key, value):
        super().__setitem__(_positions(key), value)


class _Computes(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})


@contextmanager
def other_device() -> Iterator[str]:
    """Let tensors be made on the other device in a block, whose name it gives."""
    made = {name: mock.patch.object(torch, name, _maker(name)) for name in ("tensor", "as_tensor")}
    with made["tensor"], made["as_tensor"], _Computes():
        yield OTHER


def _maker(name: str) -> Any:
    """Make tensors of Python numbers, which torch does without asking a mode."""
    usual = getattr(torch, name)

    def make(data, *args, device=None, **options):
        made = usual(data, *args, **options)
        return made if device is None else made.to(device)

    return make


def _positions(key: Any) -> tuple[Any, ...]:
    """Write lists of positions as tensors, which torch makes on the meta device, without values."""
    keys = key if isinstance(key, tuple) else (key,)
    return tuple(
        OtherDeviceTensor(torch.tensor(k, dtype=torch.int64)) if isinstance(k, list) else k
        for k in keys
    )


def _run(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [tensor for tensor in given if isinstance(tensor, OtherDeviceTensor)]
    device = kwargs.get("device")
    if not there and (device is None or torch.device(device).type != OTHER):
        return operation(*args, **kwargs)
    for tensor in given:
        here = tensor.ndim > 0 and not isinstance(tensor, OtherDeviceTensor)
        position = operation in TAKES_POSITIONS and not tensor.is_floating_point()
        if there and here and operation not in MOVES and not position:
            raise RuntimeError(f"{operation}: one of its tensors, {tensor}, is on the CPU")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    values, options = tree_map(_value, (args, kwargs))
    found = operation(*values, **options)
    if device is not None and torch.device(device).type != OTHER:
        return found
    moved = tree_map(_on_other_device, found)
    return return_and_correct_aliasing(operation, args, kwargs, moved) if there else moved


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, OtherDeviceTensor) else leaf


def _on_other_device(leaf: Any) -> Any:
    return OtherDeviceTensor(leaf) if isinstance(leaf, Tensor) else leaf
