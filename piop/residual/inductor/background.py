"""Tracing and compilation in a process of its own, which leaves its result in the cache."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

import torch

from piop.residual.inductor.processes import GRACE

Report = Callable[[Any], None]


@final
class BackgroundCompilation:
    """A process that compiles for the CPU while this one goes on.

    It is a fork, which has at once what it is to compile. What it compiled is in Inductor's cache,
    where :func:`~piop.residual.inductor.compilation.load_graph` finds it.

    Args:
        work: What it does, given a function by which it sends what can be pickled to this process.
            It fails silently.
        limit: Seconds after which it is given up: a fork may wait forever for a lock that a thread
            had when it was made.

    Raises:
        OSError: If no process can be started.
    """

    def __init__(self, work: Callable[[Report], None], limit: float) -> None:
        self.extend(limit)
        context: Any = multiprocessing.get_context("fork")
        self._reports, sender = context.Pipe(duplex=False)
        arguments = work, sender, os.getpid()
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        with warnings.catch_warnings():  # Python warns of threads, none of which it needs
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        sender.close()  # else the end of the reports would not be seen

    @staticmethod
    def is_possible() -> bool:
        """Whether a fork can trace and compile here, and share what it compiles.

        Where there is a GPU, autograd has threads, which a fork has not.
        """
        from torch._inductor import config

        caches = config.fx_graph_cache and not config.force_disable_caches
        return sys.platform == "linux" and caches and not torch.cuda.is_available()

    def extend(self, limit: float) -> None:
        """Let it run for so many seconds from now."""
        self._until = time.monotonic() + limit

    def received(self) -> list[Any]:
        """Return what it sent since the last call."""
        found = []
        with suppress(EOFError, OSError):  # it has ended
            while self._reports.poll():
                found.append(self._reports.recv())
        return found

    @property
    def runs(self) -> bool:
        """Whether it is still compiling and not given up; how it ended, the cache tells."""
        return self._process.is_alive() and time.monotonic() < self._until

    def stop(self) -> None:
        """End it and its compilers."""
        self._process.terminate()
        self._process.join(2 * GRACE)  # its compilers have theirs
        self._process.kill()
        self._process.join()
        self._process.close()
        self._reports.close()


def _run(work: Callable[[Report], None], sender: Any, parent: int) -> None:
    """Work in a forked process, silently; the one that began it does it again if this fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the first process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.disable()  # where many objects are made that stay, it is slow
    torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
    with suppress(Exception):
        work(sender.send)


def _end_with(parent: int) -> None:
    """End this process when the one that began it does."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
