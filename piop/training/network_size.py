"""The size of a network before it is built: what its weights need, and whether memory holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.overrides import TorchFunctionMode

from piop.errors import UsageError
from piop.models.core.base import Preset, Signature
from piop.training.config import MachineConfig
from piop.training.loop.out_of_memory import memory_usage, size_text

_LARGE = 8
"""Times the size of the preset up to which the memory of a network is not asked for."""
_COPIES = 3
"""Weights, their gradients and one moment, which every optimiser keeps."""


def require_memory(
    preset: Preset, signature: Signature, config: Any, machine: MachineConfig
) -> None:
    """Refuse a network that the memory of the machine cannot hold, before it is built.

    Args:
        preset: The network.
        signature: The problem's shapes.
        config: The network's sizes and choices.
        machine: Device and precision.

    Raises:
        UsageError: With the number of weights, the memory they need, and the sizes to lower.
    """
    usual = vars(preset.config)
    large = [
        name
        for name, value in vars(config).items()
        if type(value) is int and type(usual[name]) is int and value > _LARGE * max(usual[name], 1)
    ]
    if not large:
        return
    used, free = memory_usage(machine.device)
    try:
        count, size = weights_of(preset, signature, config, large)
    except Exception:  # a network that cannot be built from shapes alone is let be
        return
    size *= _COPIES * (2 if machine.precision == "float64" else 1)
    if free and size > used + free:
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in large)
        raise UsageError(
            f"{sizes}: the network would have {count:,} weights, which take {size_text(size)} with "
            f"their gradients and the state of the optimiser; there are {size_text(used + free)} "
            f"of memory. Lower {' or '.join(large)}"
        )


def weights_of(
    preset: Preset, signature: Signature, config: Any, large: Sequence[str]
) -> tuple[int, float]:
    """Count the weights of a network, and their bytes in single precision, without building it.

    Large tensors are shapes alone. A size that adds modules, such as a number of blocks, adds as
    many weights each time: two networks of few of them tell the number for many.

    Args:
        preset: The network.
        signature: The problem's shapes.
        config: Its sizes and choices.
        large: The sizes that may add modules, all of them larger than in the preset.
    """
    usual = {name: getattr(preset.config, name) for name in large}
    small = replace(config, **usual)

    def network(sizes: Any) -> nn.Module:
        with torch.random.fork_rng(devices=[]), _Shapes():
            return preset.build(signature, sizes)

    def modules(sizes: Any) -> int:
        return len([*network(sizes).modules()])

    least = modules(small)
    repeated = {n: v for n, v in usual.items() if modules(replace(small, **{n: 2 * v})) > least}

    def totals(sizes: Any) -> NDArray[np.float64]:
        each = [(p.numel(), p.numel() * p.element_size()) for p in network(sizes).parameters()]
        return np.array(each, dtype=np.float64).reshape(-1, 2).sum(0)

    count, size = _extended(totals, config, repeated).tolist()
    return round(count), size


def _extended(
    totals: Callable[[Any], NDArray[np.float64]], config: Any, repeated: Mapping[str, int]
) -> NDArray[np.float64]:
    """Extend totals, linear in each of several sizes, from a few of each to those of a config."""
    if not repeated:
        return totals(config)
    (name, few), *others = repeated.items()
    low, high = (
        _extended(totals, replace(config, **{name: n}), dict(others)) for n in (few, 2 * few)
    )
    return low + (high - low) * (getattr(config, name) - few) / few


@final
class _Shapes(TorchFunctionMode):
    """Makes the tensors that weights are drawn into without memory, and no others.

    On PyTorch's own ``meta`` device buffers would have no values, and networks compute with these.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """See the base class."""
        shaped = func in (torch.empty, torch.rand, torch.randn)
        return func(*args, **{**(kwargs or {}), **({"device": "meta"} if shaped else {})})
