"""Environment variables of torchrun: whether this is one of several processes; free of torch."""

from __future__ import annotations

import os

ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched_together() -> bool:
    """Whether this is one of several processes, as torchrun's environment says."""
    return all(os.environ.get(n) for n in ENVIRONMENT) and os.environ["WORLD_SIZE"] != "1"


def launched_first() -> bool:
    """Whether this is the only process or the first of several."""
    return not launched_together() or os.environ["RANK"] == "0"
