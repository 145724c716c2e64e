"""Out-of-memory errors: recognised, and explained with the settings to lower."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from piop.errors import OutOfMemory
from piop.training.config import TrainingConfig

MARGIN = 0.8
"""Fraction of the available memory that a step is planned to use."""
UNITS = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is a failed allocation, of Python, NumPy, torch on CPU or GPU.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes differ"))
        (True, False)
    """
    signs = ("can't allocate memory", "not enough memory", "bad_alloc", "CUDA out of memory")
    torch_error = isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    return torch_error or isinstance(error, MemoryError | torch.OutOfMemoryError)


@contextmanager
def explain_out_of_memory(remedy: Callable[[Exception], str], device: str) -> Iterator[None]:
    """Run a block and turn a failed allocation in it into a message with a remedy.

    Args:
        remedy: Failed allocation → what to do.
        device: The device of the block.

    Raises:
        OutOfMemory: If memory ran out.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"out of memory{_sizes(error, device)}. {remedy(error)}") from error


def smaller_batch(
    error: BaseException, config: TrainingConfig, data: bool, gridded: bool = False
) -> dict[str, int]:
    """Return settings with which a step should fit into memory.

    The memory of a step grows linearly with functions times points. At the failure u bytes were in
    use and a more were requested, so a step needs at least u + a where u + free are available; but
    the rest of the step was still to come, so it is halved at least.

    Args:
        error: The failed allocation.
        config: The config that failed.
        data: Whether a step has data.
        gridded: Whether the network is evaluated on a grid, which a resume cannot change.

    Returns:
        Setting → lower value; nothing where a step cannot be made smaller.
    """
    requested, (used, free) = _requested(error), memory_usage(config.machine.device)
    fraction = min(0.5, MARGIN * (used + free) / max(used + requested, 1.0))
    found: dict[str, int] = {}
    pairs = [("functions", "queries")] if config.physics else []
    pairs += [("data_functions", "data_queries")] if data else []
    for pair in [pair[:1] for pair in pairs] if gridded else pairs:
        left = fraction
        for name in pair:  # functions first, and points for what those cannot give
            now = getattr(config.points, name)
            lower = max(1, int(now * left))
            if lower < now:
                found[name] = lower
            left = min(1.0, left * now / lower)
    return found


def as_settings(found: dict[str, int]) -> str:
    """Return settings as they are given on the command line."""
    return " ".join(f"--set {name}={value}" for name, value in found.items())


def _sizes(error: BaseException, device: str) -> str:
    """Return in words how much was requested and available, as far as it is known."""
    requested = _requested(error)
    used, free = memory_usage(device)
    if not requested:
        return f" ({size_text(used)} in use)"
    asked, present, left = map(size_text, (requested, used, free))
    return f" (asked for {asked} with {present} in use and {left} free)"


def _requested(error: BaseException) -> float:
    """Return the bytes that a failed allocation requested; 0 where the message has none."""
    number = r"([\d.]+) ?(bytes|KiB|MiB|GiB)"
    pattern = rf"(?:tried to allocate|Unable to allocate|you tried to allocate) {number}"
    match = re.search(pattern, str(error), re.IGNORECASE)
    return float(match[1]) * UNITS[match[2].lower()] if match else 0.0


def memory_usage(device: str) -> tuple[float, float]:
    """Return the bytes that this process uses and those it could still have; 0 where not known."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return float(torch.cuda.memory_allocated()), float(free + reserved)
    left = _limit() - _linux("/proc/self/status", "VmSize")
    free = min(_linux("/proc/meminfo", "MemAvailable"), max(left, 0.0))
    return _linux("/proc/self/status", "VmRSS"), free


def _limit() -> float:
    """Bytes of address space that the process may have, as by ``ulimit -v``."""
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _linux(path: str, key: str) -> float:
    """Read an entry in kB; 0 where the system is another."""
    try:
        match = re.search(rf"^{key}:\s+(\d+) kB", Path(path).read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return float(match[1]) * 1024 if match else 0.0


def size_text(size: float) -> str:
    """Write a size in MiB or GiB.

    Example:
        >>> size_text(3 * 2**30), size_text(2**20)
        ('3.0 GiB', '1 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
