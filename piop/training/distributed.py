"""Several processes that work on one run: who does what, and what they tell each other.

Processes are started by ``torchrun``. Each computes its part of the global batch, the sums travel
in one message a step, and every process takes the same step; see docs/distributed.md.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from piop import errors
from piop.errors import PiopError, SpecError, UsageError
from piop.training.torchrun import launched_together

PATIENCE = 600.0
"""Seconds to wait for the others: above the differences in compiling and in writing files. A
process that has died is noticed at once, since its connections close."""
FOREVER = timedelta(days=30)
GRACE = 20.0
"""Seconds to wait for the others once asked to stop; torchrun kills after 30."""


class LostProcessError(PiopError):
    """Another process has ended or cannot be reached."""


class Processes(ABC):
    """The processes of a run, as an interface of each of them.

    Attributes:
        rank: Number of this process, from 0.
        count: How many there are.
        bytes_sent: Bytes handed to :meth:`add` so far.
    """

    rank: int
    count: int
    bytes_sent: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process writes files, prints and evaluates."""
        return self.rank == 0

    def part(self, total: int) -> range:
        """Return the samples of this process out of ``total``, in order, more for first ranks."""
        each, more = divmod(total, self.count)
        start = self.rank * each + min(self.rank, more)
        return range(start, start + each + (self.rank < more))

    def require(self, total: int, key: str) -> None:
        """Check that every process has at least one sample.

        Raises:
            UsageError: If a batch has fewer samples than there are processes.
        """
        if total < self.count:
            raise UsageError(
                f"{key}: {total} for {self.count} processes; each needs at least one. Use "
                f"--set {key}={self.count} or more, or fewer processes (--nproc-per-node {total})"
            )

    @abstractmethod
    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sum each tensor over the processes, all in one message of the first one's dtype.

        Raises:
            LostProcessError: If a process has ended.
        """

    @abstractmethod
    def lead(self, action: Callable[[], Any]) -> Any:
        """Run an action on the first process and broadcast its result, which must fit into JSON.

        Raises:
            PiopError: On every process, if it fails.
        """

    @abstractmethod
    def agree(self, value: int) -> bool:
        """Return whether all processes have the same number, in [0, 2⁶³)."""

    @abstractmethod
    def collect(self, content: bytes) -> Iterator[bytes]:
        """Gather bytes of every process on the first, one after the other; the others get none."""

    def tell(self, code: int) -> tuple[bool, int]:
        """Return whether this process reports an error that ends the run, and its exit code."""
        return self.leads, code

    def hurry(self) -> None:  # noqa: B027 - one process waits for no one
        """Note that the run was asked to stop, so that it must not wait for long any more."""


@final
class SingleProcess(Processes):
    """A run of one process."""

    rank, count = 0, 1

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors as they are."""
        return list(tensors)

    def lead(self, action: Callable[[], Any]) -> Any:
        """Run the action."""
        return action()

    def agree(self, value: int) -> bool:
        """Return True: there is one number."""
        return True

    def collect(self, content: bytes) -> Iterator[bytes]:
        """Yield the bytes as they are."""
        yield content


@final
class ProcessGroup(Processes):
    """The default process group of ``torch.distributed``.

    Messages on the CPU go by gloo, gradients on CUDA by NCCL.

    Args:
        store: Notes that outlive a process; None for a group that someone else made.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.store = store
        self._deadline: float | None = None
        self._failed = False

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sum over the processes by one all-reduce of a flat buffer."""
        flat = torch.cat([t.detach().reshape(-1).to(tensors[0]) for t in tensors])
        self.bytes_sent += flat.numel() * flat.element_size()
        with _lost_process_errors():
            work = dist.all_reduce(flat, async_op=True)
            self._wait(work, flat.is_cuda)
        pieces = flat.split([t.numel() for t in tensors])
        return [p.view(t.shape).to(t) for p, t in zip(pieces, tensors, strict=True)]

    def lead(self, action: Callable[[], Any]) -> Any:
        """Run the action on the first process and broadcast its result, or its error."""
        if not self.leads:
            outcome = json.loads(self._broadcast(b""))
            if "error" in outcome:
                kind = getattr(errors, outcome["kind"], PiopError)
                raise kind(outcome["error"])
            return outcome["value"]
        try:
            value = action()
        except Exception as error:
            kind = "" if isinstance(error, SpecError) else type(error).__name__
            self._broadcast(json.dumps({"error": str(error), "kind": kind}).encode())
            raise
        self._broadcast(json.dumps({"value": value}).encode())
        return value

    def agree(self, value: int) -> bool:
        """Compare with the smallest and the largest number of all processes."""
        ends = torch.tensor([value, -value])
        with _lost_process_errors():
            dist.all_reduce(ends, op=dist.ReduceOp.MAX)
        return bool(ends[0] == -ends[1])

    def collect(self, content: bytes) -> Iterator[bytes]:
        """Receive from each rank in turn, however long the others take."""
        if not self.leads:
            self._send(content)
            return
        yield content
        for rank in range(1, self.count):
            yield self._receive(rank)

    def hurry(self) -> None:
        """Limit further waiting to ``GRACE`` seconds."""
        self._deadline = time.monotonic() + GRACE

    def tell(self, code: int, patience: float = 1.0) -> tuple[bool, int]:
        """Decide which process reports an error that ends the run.

        The first process has the word if it fails too within ``patience`` seconds.

        Args:
            code: Exit code of this process's own error.
            patience: Seconds that the others give to the first.

        Returns:
            Whether this process tells, and the exit code that all take: that of the error told.
        """
        self.abandon()
        if self.store is None:
            return self.leads, code
        own = f"{self.rank} {code}"
        try:
            if not self.leads:
                self.store.wait(["told"], timedelta(seconds=patience))
        except RuntimeError:
            pass  # no process has reported it yet
        try:
            told = self.store.compare_set("told", "", own).decode()
        except RuntimeError:
            return True, code  # the store is gone with the process that kept it
        return told == own, int(told.split()[1])

    def abandon(self) -> None:
        """Note that this process has failed: leaving must not wait, so that the others notice."""
        self._failed = True

    def leave(self) -> None:
        """Wait until the first process has done its work, and end the group."""
        if self.store is not None and not self._failed:
            try:
                if self.leads:
                    self.store.set("over", "")
                else:
                    self.store.wait(["over"], FOREVER)
            except RuntimeError:
                pass  # the store is gone with the process that kept it
        dist.destroy_process_group()

    def _broadcast(self, content: bytes) -> bytes:
        size = torch.tensor([len(content)])
        with _lost_process_errors():
            dist.broadcast(size, 0)
            buffer = _as_tensor(content) if self.leads else torch.empty(int(size)).byte()
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def _send(self, content: bytes) -> None:
        with _lost_process_errors():
            _wait_for(dist.isend(torch.tensor([len(content)]), 0))
            _wait_for(dist.isend(_as_tensor(content), 0))

    def _receive(self, rank: int) -> bytes:
        size = torch.tensor([0])
        with _lost_process_errors():
            _wait_for(dist.irecv(size, rank))
            buffer = torch.empty(int(size), dtype=torch.uint8)
            _wait_for(dist.irecv(buffer, rank))
        return buffer.numpy().tobytes()

    def _wait(self, work: Any, cuda: bool) -> None:
        if not cuda:
            work.wait()
            return
        # NCCL does not say that a peer has gone: look again and again, so that signals are heard
        end = time.monotonic() + PATIENCE
        while not work.is_completed():
            if time.monotonic() > min(end, self._deadline or end):
                raise RuntimeError("no answer from the other processes")
            time.sleep(2e-5)
        work.wait()


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _wait_for(work: dist.Work | None) -> None:
    """Wait for a message without a time limit; None where this process takes no part in it."""
    if work is not None:
        work.wait(FOREVER)


@contextmanager
def _lost_process_errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # of which torch's distributed errors are kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LostProcessError(
            f"another process of this run has ended or cannot be reached ({reason[:200]})"
        ) from error


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes for the length of a block, if there are any.

    A group that exists already is used and left as it is. Otherwise all but the first process wait
    at the end of the block until the first has come there too.

    Raises:
        UsageError: If the others cannot be found.
    """
    if dist.is_available() and dist.is_initialized():
        yield ProcessGroup() if dist.get_world_size() > 1 else SingleProcess()
        return
    _choose_cuda_device()
    if not launched_together():
        yield SingleProcess()
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


def checksum(tensors: Iterable[Tensor]) -> int:
    """Return a checksum of tensors (CRC-32 of their bytes)."""
    found = 0
    for tensor in tensors:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found = zlib.crc32(content.numpy().data, found)
    return found
