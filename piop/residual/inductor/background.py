"""Compilation in a process of its own, which leaves its result in the cache."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import Any, final

import torch
from torch.fx import GraphModule

from piop.residual.inductor.compilation import compile_graph
from piop.residual.inductor.processes import GRACE


@final
class BackgroundCompilation:
    """A process that compiles a graph for the CPU while this one goes on.

    It is a fork, which has the graph at once, and compiles with as many compilers as torch has
    threads. What it compiled is in Inductor's cache, where :func:`compile_graph` finds it.

    Args:
        graph: As for :func:`compile_graph`; it is not changed here.
        threads: Threads that each kernel uses.
        limit: Seconds after which it is given up: a fork may wait forever for a lock that a thread
            had when it was made.

    Raises:
        OSError: If no process can be started.
    """

    def __init__(self, graph: GraphModule, threads: int, limit: float) -> None:
        self._until = time.monotonic() + limit
        settings = threads, torch.get_num_threads(), os.getpid()
        context: Any = multiprocessing.get_context("fork")
        self._process = context.Process(target=_compile, args=(graph, *settings), daemon=True)
        with warnings.catch_warnings():  # Python warns of threads, none of which it needs
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()

    @staticmethod
    def is_possible() -> bool:
        """Whether processes can be forked here, and share what they compile."""
        from torch._inductor import config

        caches = config.fx_graph_cache and not config.force_disable_caches
        return sys.platform == "linux" and caches and not torch.cuda.is_initialized()

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


def _compile(graph: GraphModule, threads: int, compilers: int, parent: int) -> None:
    """Compile in a forked process, silently; the one that began it compiles again if this fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the first process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.disable()  # where many objects are made that stay, it is slow
    torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
    with suppress(Exception):
        compile_graph(graph, threads, compilers)


def _end_with(parent: int) -> None:
    """End this process when the one that began it does."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
