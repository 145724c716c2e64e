"""Joining the other processes that torchrun has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from piop.errors import UsageError
from piop.training.distributed.group import PATIENCE, ProcessGroup
from piop.training.distributed.processes import Alone, Processes
from piop.training.launch import launched_together


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes for the length of a block, if there are any.

    A group that exists already is used and left as it is. Otherwise all but the first process wait
    at the end of the block until the first has come there too.

    Raises:
        UsageError: If the others cannot be found.
    """
    if dist.is_available() and dist.is_initialized():
        yield ProcessGroup() if dist.get_world_size() > 1 else Alone()
        return
    _choose_cuda_device()
    if not launched_together():
        yield Alone()
        return
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        patience = timedelta(seconds=PATIENCE)
        store, rank, count = next(iter(rendezvous("env://", timeout=patience)))
        cuda = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=PrefixStore("group", store),
            rank=rank,
            world_size=count,
            timeout=patience,
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"the other processes cannot be reached at {place} (from MASTER_ADDR and MASTER_PORT): "
            f"{error}. Start all of them by torchrun, see docs/distributed.md"
        ) from error
    group = ProcessGroup(PrefixStore("piop", store))
    try:
        yield group
    except BaseException:
        group.abandon()
        raise
    finally:
        group.leave()


def require_device(device: str) -> None:
    """Make sure that each process of a machine has a CUDA device of its own.

    Raises:
        UsageError: If there are fewer devices than processes.
    """
    here, devices = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if device == "cuda" and here > devices:
        raise UsageError(
            f"device: {here} processes on this machine, but {devices} CUDA devices; use "
            f"--nproc-per-node {devices}, or --device cpu"
        )


def _choose_cuda_device() -> None:
    """Let ``cuda`` mean the device of this process's rank on its machine."""
    local = os.environ.get("LOCAL_RANK", "")
    if local.isdigit() and int(local) < torch.cuda.device_count():
        torch.cuda.set_device(int(local))
