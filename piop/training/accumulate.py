"""Gradients of a part of the work, computed beside those that are there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn


@contextmanager
def set_aside(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Run a block with empty gradients, and add those from before to what it leaves.

    Args:
        parameters: Whose gradients they are.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    yield
    for parameter, earlier in zip(parameters, before, strict=True):
        if earlier is not None:
            parameter.grad = earlier if parameter.grad is None else earlier + parameter.grad
