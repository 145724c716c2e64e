"""Interface between a run and its processes, and the implementation for a single process."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor

from piop.errors import PiopError, UsageError


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


def checksum(tensors: Iterable[Tensor]) -> int:
    """Return a checksum of tensors (CRC-32 of their bytes)."""
    found = 0
    for tensor in tensors:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found = zlib.crc32(content.numpy().data, found)
    return found
