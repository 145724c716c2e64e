"""The outward normal of a boundary that turns, as known functions of the place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from piop.domain import FixedDomain
from piop.fields import InputFunction
from piop.problem import Problem


@dataclass(frozen=True)
class KnownInput:
    """What a residual reads of an input.

    Attributes:
        name: Under which it stands.
        of: Its coordinates.
    """

    name: str
    of: tuple[str, ...]


@final
class OutwardNormal(InputFunction):
    """A component of the outward normal of a face, at points on it.

    Args:
        domain: The domain.
        face: Part of it.
        component: 0 or 1.
    """

    batch, dimension = 1, 2

    def __init__(self, domain: FixedDomain, face: str, component: int) -> None:
        self.domain, self.face, self.component = domain, face, component

    def derivative(self, points: Tensor, order: Sequence[int]) -> Tensor:
        """Evaluate at ``[B, N, 2]``: ``[B, N]``, the point of the face that is nearest.

        Raises:
            NotImplementedError: For a derivative, which no condition asks.
        """
        if any(order):
            raise NotImplementedError("a normal is known on the boundary alone")
        places = points.double().cpu().reshape(-1, 2).numpy()
        found = torch.from_numpy(self.domain.normals(places, self.face)[:, self.component])
        return found.reshape(points.shape[:-1]).to(points)

    def take(self, index: Tensor) -> Self:
        """The same for all functions."""
        del index
        return self

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same anywhere."""
        del device, dtype
        return self


def normals_on(
    problem: Problem, face: str
) -> tuple[tuple[KnownInput, ...], dict[str, InputFunction]]:
    """Give the components of the normal of a face as inputs of a residual, and their functions."""
    of = tuple(c.name for c in problem.space)
    names = problem.domain.normal_names
    functions: dict[str, InputFunction] = {
        name: OutwardNormal(problem.domain.fixed, face, i) for i, name in enumerate(names)
    }
    return tuple(KnownInput(name, of) for name in names), functions
