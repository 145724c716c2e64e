"""Two threads that compute for all pages: one for the time shown, one for everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, final

T = TypeVar("T")


@final
class Compute:
    """A thread for short computations and one for long ones, so that none waits for the other kind.

    Each page has at most one computation under way, so the queues are as long as there are pages.
    """

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(1, "quick")
        self._thorough = ThreadPoolExecutor(1, "thorough")

    async def quickly(self, function: Callable[..., T], *arguments: object) -> T:
        """Compute what is shown at once."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, function, *arguments)

    async def thoroughly(self, function: Callable[..., T], *arguments: object) -> T:
        """Compute what may take a second."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thorough, function, *arguments)

    def close(self) -> None:
        """End both threads when they are done."""
        for pool in (self._quick, self._thorough):
            pool.shutdown(wait=False, cancel_futures=True)
