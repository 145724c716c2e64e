"""Ctrl-C as a wish to end after the present step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(action: Callable[[], None], twice: bool) -> Iterator[None]:
    """Call something when Ctrl-C is pressed within a block, in place of raising.

    Args:
        action: What to call.
        twice: Whether a second Ctrl-C is heard the same way; else it raises at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        action()
        if not twice:
            signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
