"""Resolutions as people write them: ``25%``, ``40``, ``64x64``; and sensors thinned to them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.sampling import Draws

Grid = tuple[int, ...]


@dataclass(frozen=True)
class SensorChoice:
    """How many of an input's sensors are seen.

    Attributes:
        label: As it was written.
        share: Of the sensors that there are, in (0, 1]; None for a count.
        count: How many; None for a share.
    """

    label: str
    share: float | None = None
    count: int | None = None

    def of(self, total: int) -> int:
        """How many out of so many: a share is rounded, to one at least."""
        return self.count or max(1, round((self.share or 0.0) * total))


def read_sensor_choices(given: str | Iterable[str | int]) -> tuple[SensorChoice, ...]:
    """Read how many sensors to see.

    Args:
        given: ``"25%,50%,40"``, or its parts; a number without ``%`` is a count.

    Raises:
        UsageError: For a part that is neither, is out of range, or is given twice.
    """
    found = tuple(map(_sensor_choice, _parts("sensors", given)))
    _require_different("sensors", [choice.label for choice in found])
    return found


def _sensor_choice(text: str) -> SensorChoice:
    if re.fullmatch(r"\d+", text) and int(text):
        return SensorChoice(str(int(text)), count=int(text))
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*%", text):
        percent = float(text[:-1])
        if 0 < percent <= 100:
            return SensorChoice(f"{percent:g}%", share=percent / 100)
    raise UsageError(
        f"sensors: {text!r} is neither a percentage above 0% and up to 100% nor a count from 1 on; "
        "give such as 25%,50%,100% or 40"
    )


def read_grids(given: str | Iterable[str | int | Iterable[int]], axes: list[str]) -> list[Grid]:
    """Read the grids to judge on.

    Args:
        given: ``"64,128"`` or its parts: points along every axis of space, or one count for each
            (``"64x32"``, ``(64, 32)``).
        axes: Names of the axes of space.

    Returns:
        Points along each axis.

    Raises:
        UsageError: For a part that is no such grid, or is given twice.
    """
    found = [_grid(text, axes) for text in _parts("grid", given)]
    _require_different("grid", [grid_label(grid) for grid in found])
    return found


def _grid(text: str, axes: list[str]) -> Grid:
    counts = [part.strip() for part in re.split(r"[x×*]", text)]
    if not all(re.fullmatch(r"\d+", c) and int(c) > 1 for c in counts):
        example = "x".join(["64"] * len(axes)) if len(axes) > 1 else "64"
        raise UsageError(
            f"grid: {text!r} is no grid: give points per axis of space, 2 or more, such as "
            f"{example}"
        )
    if len(counts) not in (1, len(axes)):
        raise UsageError(
            f"grid: {text!r} has {len(counts)} counts; the axes of space are {', '.join(axes)}: "
            "give one count for each, or one for all"
        )
    return tuple(int(c) for c in counts) * (len(axes) if len(counts) == 1 else 1)


def grid_label(grid: Grid) -> str:
    """Write a grid as ``64`` or ``64x32``."""
    return "x".join(map(str, grid))


def _parts(what: str, given: str | Iterable[object]) -> list[str]:
    if isinstance(given, str):
        given = given.split(",")
    parts = [
        "x".join(map(str, part)) if isinstance(part, tuple | list) else str(part).strip()
        for part in given
    ]
    if not parts:
        raise UsageError(f"{what}: none is given")
    return parts


def _require_different(what: str, labels: list[str]) -> None:
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise UsageError(f"{what}: {label} is given twice")


def thin(
    samples: FunctionSamples, choice: SensorChoice, draws: Draws, lane: str
) -> FunctionSamples:
    """Keep a random part of the sensors of each sample, in their order.

    The same draws keep the sensors of a smaller choice within those of a larger one.

    Args:
        samples: Sensors ``[B, M, …]``; those that are masked are none.
        choice: How many to keep of each sample's own.
        draws: The randomness, B samples.
        lane: Its name.

    Returns:
        At most M sensors, masked where samples have fewer than others.

    Raises:
        UsageError: If a sample has fewer sensors than are to be kept.
    """
    batch, total = samples.values.shape[:2]
    real = samples.mask if samples.mask is not None else torch.ones(batch, total, dtype=torch.bool)
    numbers = real.sum(1).tolist()
    if choice.count is not None and choice.count > min(numbers):
        raise UsageError(
            f"sensors: there are {min(numbers)} of {lane!r}, which is fewer than {choice.count}; "
            "give at most so many, or a percentage"
        )
    kept = torch.tensor([choice.of(n) for n in numbers])
    keys = draws.uniform(f"thin/{lane}", total).masked_fill(~real, math.inf)
    rank = keys.argsort(dim=1, stable=True).argsort(1)
    chosen = rank < kept[:, None]
    most = int(kept.max())
    # those chosen come first, in the order in which they were
    order = (~chosen).int().argsort(dim=1, stable=True)[:, :most]
    mask = chosen.gather(1, order)
    return FunctionSamples(
        _rows(samples.points, order), _rows(samples.values, order), None if mask.all() else mask
    )


def _rows(values: Tensor, order: Tensor) -> Tensor:
    values = values.expand(len(order), -1, -1)
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))
