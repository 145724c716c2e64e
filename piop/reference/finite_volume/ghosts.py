"""What lies beyond the ends of an axis: three cells that stand for the boundary condition."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from piop.forms.conservation import ConservationLaw, mirror
from piop.lowering import compile_expression
from piop.reference.finite_volume.known import KnownValues
from piop.reference.finite_volume.mesh import CellMesh

GHOSTS = 3


@final
class Ghosts:
    """Pads states along an axis as the conditions on its two faces say.

    ``periodic`` takes the cells of the other end. ``outflow`` repeats the last cell, so that what
    reaches the face leaves. ``wall`` mirrors the cells with the signs of the law's mirror symmetry.
    ``dirichlet`` sets its unknown and lets the others flow out; the Riemann solver at the face
    takes of it what enters. A face without a condition lets everything flow out.
    """

    def __init__(self, problem: Any, law: ConservationLaw, axis: int, known: KnownValues) -> None:
        self.axis, self.known = axis, known
        self.periodic = problem.space[axis].periodic
        name = problem.space[axis].name
        self.signs: list[Tensor | None] = []
        self.given: list[list[tuple[int, Any]]] = []
        for end in ("min", "max"):
            conditions = problem.boundary.get(f"{name}.{end}", ())
            wall = any(c.mirrored for c in conditions)
            signs = torch.tensor(mirror(law, axis), dtype=torch.float64) if wall else None
            self.signs.append(signs)
            self.given.append(
                [
                    (
                        problem.unknowns.index(c.unknown),
                        compile_expression(c.prescribed, known.atoms),
                    )
                    for c in conditions
                    if c.prescribed is not None
                ]
            )

    def pad(self, u: Tensor, mesh: CellMesh, t: Tensor) -> Tensor:
        """Add three cells at both ends of the axis to ``u [B, n, *sizes]``, at times ``t [B]``."""
        dim = 2 + self.axis
        n = u.shape[dim]
        if self.periodic:
            parts = u.narrow(dim, n - GHOSTS, GHOSTS), u, u.narrow(dim, 0, GHOSTS)
            return torch.cat(parts, dim)
        return torch.cat([self._end(0, u, mesh, t), u, self._end(1, u, mesh, t)], dim)

    def _end(self, end: int, u: Tensor, mesh: CellMesh, t: Tensor) -> Tensor:
        dim = 2 + self.axis
        n = u.shape[dim]
        signs = self.signs[end]
        if signs is not None:
            near = u.narrow(dim, 0 if end == 0 else n - GHOSTS, GHOSTS).flip(dim)
            return near * signs.to(u).reshape(1, -1, *[1] * (u.ndim - 2))
        ghost = torch.cat([u.narrow(dim, 0 if end == 0 else n - 1, 1)] * GHOSTS, dim)
        if self.given[end]:
            values = self.known.at(mesh.ends[self.axis][end], t)
            for row, compiled in self.given[end]:
                ghost[:, row] = compiled(values).to(u)
        return ghost
