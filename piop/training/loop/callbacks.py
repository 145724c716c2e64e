"""Callbacks: functions that are called with the metrics of training, and with the finished run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

import torch

from piop.errors import PiopError, UsageError, excerpt

if TYPE_CHECKING:
    from piop.run import Run

HELD_OUT = "held_out"
"""In the metrics, the mean relative L2 error on a few held-out inputs."""


@final
@dataclass(frozen=True)
class TrainingEvent:
    """What a callback is called with.

    Attributes:
        path: The run folder.
        step: Steps taken so far, counted over all processes and resumes of the run.
        metrics: The row of ``metrics.jsonl`` that was just written: ``loss`` and its terms,
            ``gradient``, ``learning_rate``, adaptive weights, inferred parameters, ``held_out``
            where it was measured, ``seconds``. Empty in the last event.
        run: The trained run, in the last event: after the evaluation, or where training was
            interrupted without one. None before.
    """

    path: Path
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    run: Run | None = None


class Callback(Protocol):
    """A function of one event, or an object that can be called like one.

    It is called by the first process alone, after each row of the metrics and once at the end. It
    cannot change the numbers of training: it gets copies, its time does not count towards the
    budget, and torch's global state is restored. What it raises ends training, the run being saved;
    ``KeyboardInterrupt`` ends it as Ctrl-C does.

    Example:
        >>> def show(event: TrainingEvent) -> None:
        ...     if "loss" in event.metrics:
        ...         print(f"step {event.step}: loss {event.metrics['loss']:.3g}")
    """

    def __call__(self, event: TrainingEvent, /) -> None:
        """Take an event."""


class CallbackError(PiopError):
    """A callback has raised something; its text names the callback and what it raised."""


@final
class Callbacks:
    """Calls callbacks one after the other.

    Args:
        given: The callbacks.
    """

    def __init__(self, given: Sequence[Callback] = ()) -> None:
        self.given = tuple(given)

    @classmethod
    def of(cls, given: Any) -> Callbacks:
        """Check what is given as ``callbacks``.

        Raises:
            UsageError: If it is no list of functions.
        """
        if callable(given) or not isinstance(given, list | tuple):
            raise UsageError(
                f"callbacks: {excerpt(given)} is not a list; give such as callbacks=[function]"
            )
        for one in given:
            if not callable(one) or isinstance(one, type):
                raise UsageError(
                    f"callbacks: {excerpt(one)} is not a function of one event; see piop.Callback"
                )
        return cls(given)

    def __call__(self, event: TrainingEvent) -> None:
        """Call each with an event.

        Raises:
            CallbackError: For what the first of them raises that fails; the others are not called.
        """
        for callback in self.given:
            try:
                with _same_state():
                    callback(event)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".removesuffix(": ")
                message = f"callback {name_of(callback)} failed at step {event.step} ({reason})"
                raise CallbackError(message) from error


def on_rows(take: Callable[[dict[str, float]], object]) -> Callback:
    """Return a callback that hands on the rows of the metrics alone."""

    def rows(event: TrainingEvent) -> None:
        if event.metrics:
            take(dict(event.metrics))

    rows.__qualname__ = name_of(take)
    return rows


def name_of(callback: Callable[..., object]) -> str:
    """Return the name of a function, or of the class of an object."""
    return getattr(callback, "__qualname__", type(callback).__qualname__)


@contextmanager
def _same_state() -> Iterator[None]:
    """Restore torch's global state, on which the numbers of training depend."""
    dtype, threads, gradients = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
    )
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
