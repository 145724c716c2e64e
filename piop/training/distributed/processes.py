"""The processes of a run as one of them sees them, and a run of one process alone."""

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
    """The processes of a run, seen from one of them.

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
        """Give the samples of this process out of ``total``, in order; the first ranks get more."""
        each, more = divmod(total, self.count)
        start = self.rank * each + min(self.rank, more)
        return range(start, start + each + (self.rank < more))

    def require(self, total: int, key: str) -> None:
        """Make sure that every process has something to do.

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
        """Let the first process do something, and tell all the result, which JSON must hold.

        Raises:
            PiopError: On every process, if it fails.
        """

    @abstractmethod
    def agree(self, value: int) -> bool:
        """Whether all processes have the same number, in [0, 2⁶³)."""

    @abstractmethod
    def collect(self, content: bytes) -> Iterator[bytes]:
        """Bring bytes of every process to the first, one after the other; the others get none."""

    def tell(self, code: int) -> tuple[bool, int]:
        """Decide whether this process reports an error that ends the run, and its exit code."""
        return self.leads, code

    def hurry(self) -> None:  # noqa: B027 - one process waits for no one
        """Note that the run was asked to stop, so that it must not wait for long any more."""


@final
class Alone(Processes):
    """One process, which is all there is."""

    rank, count = 0, 1

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Give the tensors back."""
        return list(tensors)

    def lead(self, action: Callable[[], Any]) -> Any:
        """Do it."""
        return action()

    def agree(self, value: int) -> bool:
        """Agree with itself."""
        return True

    def collect(self, content: bytes) -> Iterator[bytes]:
        """Give the bytes back."""
        yield content


def checksum(tensors: Iterable[Tensor]) -> int:
    """Sum up tensors in a number that is different if a single bit is."""
    found = 0
    for tensor in tensors:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found = zlib.crc32(content.numpy().data, found)
    return found
