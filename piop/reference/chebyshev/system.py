"""A problem's rows on a mesh, for a batch of instances: ``M w' + V(t, w) = 0`` and ∂V/∂w."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from piop.reference.chebyshev.equations import ChannelDerivative, Equations, Face, LinearTerms, Row
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.input_values import Sources, moves

Values = Mapping[Any, Tensor]
"""Values by the symbols that rows need, each ``[B or 1, S or 1, n1 or 1, …, nd or 1]``."""


@final
class CollocationSystem:
    """Equations on a mesh with the inputs of a batch.

    Args:
        equations: The rows.
        sources: The inputs.
        mesh: The points.
        gauges: Channel → mean, where equations leave a constant.
    """

    def __init__(
        self,
        equations: Equations,
        sources: Sources,
        mesh: CollocationMesh,
        gauges: dict[int, float],
    ) -> None:
        self.equations, self.sources, self.mesh, self.gauges = equations, sources, mesh, gauges
        self.shape = (len(equations.channels), *mesh.sizes)
        self.size = len(equations.channels) * mesh.points
        self._operators: dict[tuple[int, ...], Tensor] = {}
        self._known: dict[Any, Tensor] = {}
        self._times: tuple[float, ...] = ()
        index = torch.arange(mesh.points, device=mesh.device).reshape(mesh.sizes)
        self._lowered = mesh.lowered() if equations.multipliers else None
        self.conditions = [
            (row, face, index.select(*face).flatten()) for face, row in equations.conditions
        ]

    def value(self, w: Tensor, times: Sequence[float]) -> Tensor:
        """V at ``w [B, S, C, *sizes]``, of S times; on faces the residuals of conditions."""
        values = self._values(w, times)
        out = torch.empty_like(w)
        for row in self.equations.rows:
            out[:, :, row.channel] = row.value(_read(row, values))[0]
        for channel, mean in self.gauges.items():
            off = (w[:, :, channel] * self.mesh.weights).flatten(2).sum(2) - mean
            out[:, :, channel] += off.reshape(*off.shape, *(1,) * len(self.mesh.sizes))
        if self._lowered is not None:
            nodes, extrapolate = self._lowered
            for channel in self.equations.multipliers:
                own, rows = w[:, :, channel].flatten(2), out.view(*w.shape[:3], -1)
                rows[:, :, channel, nodes] = own[..., nodes] - own @ extrapolate.T
        for row, face, _ in self.conditions:
            axis, end = face
            found = row.value(self._read_at(face, row, values))[0]
            target = out[:, :, row.channel].select(axis + 2, end)
            target.copy_(found.squeeze(axis + 2) if found.ndim else found)
        return out

    def read(self, atom: Any, w: Tensor, times: Sequence[float]) -> Tensor:
        """Values of an atom of an equation at ``w [B, S, C, *sizes]``, of S times."""
        derivative = self.equations.derivative_of(atom)
        if derivative is not None:
            return self.mesh.derivative(w[:, :, derivative[0]], derivative[1])
        own = times if moves(self.equations.problem, atom) else times[:1]
        return torch.stack([self.sources.value(atom, self.mesh.axes(), t) for t in own], 1)

    def jacobian(self, w: Tensor, t: float) -> Tensor:
        """∂V/∂w at ``w [B, C, *sizes]``: ``[B or 1, size, size]``, 1 where all share it."""
        return self._matrix(self._values(w.unsqueeze(1), (t,)), lambda r: r.slopes, self.gauges)

    def mass(self, t: float) -> Tensor:
        """M ``[B or 1, size, size]``: nothing at the rows of conditions."""
        return self._matrix(self._values_at_zero(t), lambda r: r.mass, {})

    def differential(self) -> Tensor:
        """True at values that follow from their own row's time derivative ``[C, *sizes]``."""
        keep = torch.zeros(self.shape, dtype=torch.bool, device=self.mesh.device)
        for row in self.equations.rows:
            keep[row.channel] = bool(row.mass.derivatives)
        flat = keep.view(len(keep), -1)
        for row, _, nodes in self.conditions:
            flat[row.channel, nodes] = False
        return keep

    def coefficient(self, row: Row, derivative: ChannelDerivative, t: float) -> Tensor:
        """A slope of a row at the zero state, ``[B, *sizes]``."""
        arguments = _read(row, self._values_at_zero(t))
        slope = row.slopes.compute(arguments)[row.slopes.derivatives.index(derivative)]
        speed = slope / row.mass.compute(arguments)[0]
        speed = speed[:, 0] if speed.ndim else speed
        return speed.expand(self.sources.batch, *self.mesh.sizes)

    def _matrix(
        self, values: Values, part: Callable[[Row], LinearTerms], gauges: Mapping[int, float]
    ) -> Tensor:
        count, points = len(self.equations.channels), self.mesh.points
        inside = [(r, self._terms(part(r), _read(r, values))) for r in self.equations.rows]
        on_faces = [
            (r, nodes, self._terms(part(r), self._read_at(face, r, values), face))
            for r, face, nodes in self.conditions
        ]
        every = [*(t for _, t in inside), *(t for _, _, t in on_faces)]
        batch = max([len(k) for terms in every for _, k in terms], default=1)
        shape = (batch, count, points, count, points)
        out = torch.zeros(shape, dtype=torch.float64, device=self.mesh.device)
        for channel in gauges:
            out[:, channel, :, channel, :] += self.mesh.weights.flatten()
        for row, terms in inside:
            for (channel, order), k in terms:
                out[:, row.channel, :, channel] += k[..., None] * self._operator(order)
        for row, nodes, terms in on_faces:
            out[:, row.channel, nodes] = 0.0
            for (channel, order), k in terms:
                out[:, row.channel, nodes, channel] += k[..., None] * self._operator(order)[nodes]
        if self._lowered is not None:
            nodes, extrapolate = self._lowered
            for channel in self.equations.multipliers:
                out[:, channel, nodes] = 0.0
                out[:, channel, nodes, channel, nodes] = 1.0
                out[:, channel, nodes, channel] -= extrapolate
        return out.reshape(batch, self.size, self.size)

    def _terms(
        self, part: LinearTerms, arguments: Sequence[Tensor], face: Face | None = None
    ) -> list[tuple[ChannelDerivative, Tensor]]:
        """Coefficients of derivatives at the nodes of a row ``[B or 1, nodes]``."""
        sizes = list(self.mesh.sizes)
        if face is not None:
            sizes[face[0]] = 1
        found = []
        for derivative, k in zip(part.derivatives, part.compute(arguments), strict=True):
            lead = k.shape[:1] if k.ndim else (1,)
            found.append(
                (derivative, (k[:, 0] if k.ndim else k).expand(*lead, *sizes).reshape(*lead, -1))
            )
        return found

    def _operator(self, order: tuple[int, ...]) -> Tensor:
        if order not in self._operators:
            self._operators[order] = self.mesh.operator(order)
        return self._operators[order]

    def _read_at(self, face: Face, row: Row, values: Values) -> list[Tensor]:
        """What a row needs at its face, of size 1 along the axis across."""
        dim, end = face[0] - len(self.mesh.sizes), face[1]
        return [v.narrow(dim, v.shape[dim] - 1 if end else 0, 1) for v in _read(row, values)]

    def _values_at_zero(self, t: float) -> Values:
        return self._values(torch.zeros((1, 1, *self.shape)).to(self.mesh.weights), (t,))

    def _values(self, w: Tensor, times: Sequence[float]) -> Values:
        """Values at ``w [B, S, C, *sizes]``; of what is known only what varies is renewed."""
        if tuple(times) != self._times:
            for symbol, atom in self.equations.known.items():
                varies = moves(self.equations.problem, atom)
                if varies or symbol not in self._known:
                    own = times if varies else times[:1]
                    found = [self.sources.value(atom, self.mesh.axes(), t) for t in own]
                    self._known[symbol] = torch.stack(found, 1)
            self._times = tuple(times)
        reads = self.equations.unknowns.items()
        return {d: self.mesh.derivative(w[:, :, c], o) for d, (c, o) in reads} | self._known


def _read(row: Row, values: Values) -> list[Tensor]:
    return [values[symbol] for symbol in row.needs]
