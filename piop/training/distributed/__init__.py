"""Several processes that work on one run: who does what, and what they tell each other.

Processes are started by ``torchrun``. Each computes its part of the global batch, the sums travel
in one message a step, and every process takes the same step; see docs/distributed.md.
"""

from piop.training.distributed.group import ProcessGroup, joined, require_device
from piop.training.distributed.processes import LostProcessError, Processes, SingleProcess, checksum

__all__ = [
    "LostProcessError",
    "ProcessGroup",
    "Processes",
    "SingleProcess",
    "checksum",
    "joined",
    "require_device",
]
