"""Where and how exactly a run runs, and when it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from piop.errors import UsageError


@dataclass(frozen=True)
class MachineConfig:
    """Where and how exactly it runs; kept on resume, since the numbers depend on it.

    Attributes:
        device: ``cpu`` or ``cuda``.
        precision: Of weights and loss; functions are drawn in float64 always. ``tf32`` and ``bf16``
            keep weights and sums in float32 and round what enters matrix products: ``tf32`` on a
            GPU everywhere in training, ``bf16`` in the data's part alone, since derivatives are not
            taken below float32.
        compile: Trace and compile the training step.
        threads: CPU threads of torch; None leaves torch's own choice, and MKL's.
        default_threads: The threads torch chose where none were asked for; a resume takes as many.
        seed: Of weights, functions and points.
        checkpoint: Seconds between checkpoints.
        kernel: What sums up the attention of streams: plain ``torch``, or the ``triton`` kernel,
            which needs a CUDA device and has not been timed on one.
        cuda_graphs: Replay a compiled step as a CUDA graph, which spares launching its kernels one
            by one; it needs a CUDA device and has not been run on one.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float64", "float32", "tf32", "bf16"] = "float32"
    compile: bool = False
    threads: int | None = None
    default_threads: int | None = None
    seed: int = 0
    checkpoint: float = 30.0
    kernel: Literal["torch", "triton"] = "torch"
    cuda_graphs: bool = False


@dataclass(frozen=True)
class BudgetConfig:
    """When training ends: after so many steps, or so many seconds.

    Attributes:
        steps: Steps; exactly one of the two is given.
        time: Seconds from the end of the first step.
    """

    steps: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.time is None):
            raise UsageError("give either steps or time as the budget, not both and not neither")
        for name in ("steps", "time"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name}: {value!r} is not above zero")
