"""Which kernel sums up the attention of streams on the device of a run."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from piop.errors import UsageError
from piop.residual.attention.program import AttentionProgram, Operands

Kernel = Callable[[Operands, AttentionProgram], Tensor]
"""Sums the rows of e^z [v | 1] over the sensors, as :func:`~.online.online_totals` does."""


def choose_kernel(name: str, device: str) -> Kernel | None:
    """Find a kernel by its name.

    Args:
        name: ``torch`` or ``triton``.
        device: ``cpu`` or ``cuda``.

    Returns:
        The kernel; None for plain torch operations.

    Raises:
        UsageError: If the name is unknown, or the machine lacks what the kernel needs.
    """
    if name == "torch":
        return None
    if name != "triton":
        raise UsageError(f"kernel: {name!r} is not one of torch, triton")
    missing = missing_for_triton(device)
    if missing:
        raise UsageError(f"kernel: triton needs {missing}; leave kernel at torch, or provide it")
    from piop.residual.attention.fused import fused_totals

    return fused_totals


def missing_for_triton(device: str = "cuda") -> str | None:
    """Say what a machine lacks for the Triton kernel, None where nothing is missing.

    Args:
        device: The device of the run.
    """
    if device != "cuda":
        return f"a CUDA device, and this run is on {device!r} (--device cuda)"
    if not torch.cuda.is_available():
        return f"a CUDA device, and torch {torch.__version__} sees none here"
    if find_spec("triton") is None:
        return "the package triton, which is not installed here (pip install triton)"
    major, minor = torch.cuda.get_device_capability()
    if major < OLDEST:
        return f"compute capability {OLDEST}.0 or newer, and this device has {major}.{minor}"
    return None


OLDEST = 8
"""Compute capability from which Triton serves a device."""
