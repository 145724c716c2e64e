"""Several processes that work on one run: who does what, and what they tell each other.

Processes are started by ``torchrun``. Each computes its part of the global batch, the sums travel
in one message a step, and every process takes the same step; see docs/distributed.md.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store
from torch.distributed.rendezvous import rendezvous

from piop import errors
from piop.errors import PiopError, SpecError, UsageError
from piop.training.torchrun import launched_together

PATIENCE = 600.0
"""Seconds to wait for the others: above the differences in compiling and in writing files. A
process that has died is noticed at once, since its connections close, or by its heartbeats."""
BEAT, MISSED = 5.0, 12
"""Seconds between heartbeats, and how many in a row a process that hangs has missed."""
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

    def gather(self, own: Tensor, total: int) -> Tensor:
        """Gather the rows of all processes ``[total, …]``; those of this one are its part."""
        part = self.part(total)
        whole = own.new_zeros(total, *own.shape[1:])
        whole[part.start : part.stop] = own
        return self.add([whole.double()])[0].to(own)

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
class Heartbeats:
    """Tell the other processes that this one runs, and observe which of them do.

    The first process observes all others, they observe the first. Missed heartbeats are counted in
    those of this process, not by a clock: one that was itself stopped has missed none.

    Args:
        store: Notes that all processes share.
        rank: Number of this process.
        count: How many there are.
    """

    def __init__(self, store: Store, rank: int, count: int) -> None:
        own = store.clone()  # waiting blocks a connection  # pyright: ignore[reportAttributeAccessIssue]
        self._store: Store = own
        self._rank = rank
        self._heard: dict[int, tuple[int, int]] = {}  # heartbeats, and those missed
        for other in range(1) if rank else range(1, count):
            self._heard[other] = 0, 0
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def silent(self) -> list[int]:
        """The observed ranks that have missed ``MISSED`` heartbeats."""
        return [rank for rank, (_, missed) in self._heard.items() if missed >= MISSED]

    def end(self) -> None:
        """Stop."""
        self._ended.set()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the store is gone with the process that kept it
            while not self._ended.wait(BEAT):
                self._store.add(f"beats/{self._rank}", 1)
                for rank, (before, missed) in self._heard.items():
                    beats = self._store.add(f"beats/{rank}", 0)
                    self._heard[rank] = (beats, missed + 1 if beats == before else 0)


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
        self._heartbeats = Heartbeats(_get_default_store(), self.rank, self.count)
        self._deadline: float | None = None
        self._failed = False

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sum over the processes by one all-reduce of a flat buffer."""
        flat = torch.cat([t.detach().reshape(-1).to(tensors[0]) for t in tensors])
        self.bytes_sent += flat.numel() * flat.element_size()
        with self._lost_process_errors():
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
        with self._lost_process_errors():
            dist.all_reduce(ends, op=dist.ReduceOp.MAX)
        return bool(ends[0] == -ends[1])

    def collect(self, content: bytes) -> Iterator[bytes]:
        """Receive from each rank in turn, however long it takes while it runs."""
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

    def close(self) -> None:
        """Wait until the first process has done its work, and end the group, if it is its own."""
        try:
            if self.store is not None and not self._failed:
                if self.leads:
                    self.store.set("over", "")
                else:
                    self._while_it_runs(0, self.store.wait, ["over"], FOREVER)
        except RuntimeError:
            pass  # the store is gone with the process that kept it
        finally:
            self._heartbeats.end()
            if self.store is not None:
                dist.destroy_process_group()

    def _broadcast(self, content: bytes) -> bytes:
        size = torch.tensor([len(content)])
        with self._lost_process_errors():
            dist.broadcast(size, 0)
            buffer = _as_tensor(content) if self.leads else torch.empty(int(size)).byte()
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def _send(self, content: bytes) -> None:
        for message in (torch.tensor([len(content)]), _as_tensor(content)):
            self._exchange(0, dist.isend, message)

    def _receive(self, rank: int) -> bytes:
        size = torch.tensor([0])
        self._exchange(rank, dist.irecv, size)
        buffer = torch.empty(int(size), dtype=torch.uint8)
        self._exchange(rank, dist.irecv, buffer)
        return buffer.numpy().tobytes()

    def _exchange(
        self, peer: int, start: Callable[[Tensor, int], dist.Work | None], message: Tensor
    ) -> None:
        with self._lost_process_errors():
            if (work := start(message, peer)) is not None:
                self._while_it_runs(peer, work.wait, FOREVER)

    def _while_it_runs(self, peer: int, wait: Callable[..., Any], *arguments: Any) -> None:
        """Wait, in a thread that can be left, as long as another process has heartbeats.

        Raises:
            LostProcessError: If it has none.
        """
        done: futures.Future[None] = futures.Future()

        def run() -> None:
            try:
                done.set_result(wait(*arguments))
            except RuntimeError as error:
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        while not futures.wait([done], BEAT).done:
            if peer in self._heartbeats.silent:
                raise self._lost("no heartbeat")
        done.result()

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

    @contextmanager
    def _lost_process_errors(self) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # of which torch's distributed errors are kinds
            reason = [*str(error).strip().splitlines(), type(error).__name__][0]
            raise self._lost(reason) from error

    def _lost(self, reason: str) -> LostProcessError:
        """Name the processes that hang, if any."""
        if silent := self._heartbeats.silent:
            who = f"rank {', '.join(map(str, silent))} of this run hangs or"
        else:
            who = "another process of this run has ended or"
        return LostProcessError(f"{who} cannot be reached ({reason[:200]})")


def _as_tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


_joined: ContextVar[Processes | None] = ContextVar("joined", default=None)


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes for the length of a block, if there are any; blocks may be nested.

    A group that exists already is used and left as it is. Otherwise all but the first process wait
    at the end of the block until the first has come there too.

    Raises:
        UsageError: If the others cannot be found.
    """
    if (outer := _joined.get()) is not None:
        yield outer
        return
    with _join() as processes:
        token = _joined.set(processes)
        try:
            yield processes
        finally:
            _joined.reset(token)


@contextmanager
def _join() -> Iterator[Processes]:
    if dist.is_available() and dist.is_initialized():
        if dist.get_world_size() == 1:
            yield SingleProcess()
            return
        with closing(ProcessGroup()) as group:
            yield group
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
    with closing(group):
        try:
            yield group
        except BaseException:
            group.abandon()
            raise


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
