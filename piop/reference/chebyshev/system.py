"""A problem's rows on a mesh, for a batch of instances: ``M w' + V(t, w) = 0`` and ∂V/∂w."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import sympy
import torch
from torch import Tensor

from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.reference.chebyshev.equations import ChannelDerivative, Equations, Row, face_of
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.input_values import Sources, moves

_Compiled = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class CompiledRow:
    """A row whose expressions are functions of the values of some atoms.

    Attributes:
        row: The row.
        needs: Which of the program's arguments its functions take.
        value: The rest of the row.
        slopes: Its derivatives, in the order of ``row.slopes``.
        mass: Coefficients, in the order of ``row.mass``.
    """

    row: Row
    needs: tuple[int, ...]
    value: _Compiled
    slopes: _Compiled
    mass: _Compiled


@final
class CompiledEquations:
    """The rows of a problem, compiled once for all meshes.

    Args:
        problem: The ``Problem``.
        equations: Its rows.
    """

    def __init__(self, problem: Problem, equations: Equations) -> None:
        self.problem, self.equations = problem, equations
        scalars = [i.symbol for i in problem.inputs if not i.of]
        others = [*scalars, *(c.symbol for c in problem.coordinates)]
        self.arguments = (*equations.unknowns, *equations.inputs, *others)
        self.known = [*equations.inputs.values(), *others]
        self.rows = [self._compile(r) for r in equations.rows]
        self.conditions = [self._compile(r) for r in equations.conditions]
        self.initial_conditions = [self._compile(r) for r in equations.initial_conditions]

    def _compile(self, row: Row) -> CompiledRow:
        parts = [[row.value], list(row.slopes.values()), list(row.mass.values())]
        used = set().union(*(e.free_symbols for part in parts for e in map(sympy.sympify, part)))
        named = list(enumerate(self.arguments))
        time = None if self.problem.time is None else self.problem.time.symbol
        needs = tuple(i for i, a in named if a in used or a == time)
        names = tuple(self.arguments[i] for i in needs)
        return CompiledRow(row, needs, *(compile_expressions(tuple(p), names) for p in parts))


@final
class CollocationSystem:
    """A program on a mesh with the inputs of a batch.

    Args:
        program: The rows.
        sources: The inputs.
        mesh: The points.
        gauges: Channel → mean, where equations leave a constant.
    """

    def __init__(
        self,
        program: CompiledEquations,
        sources: Sources,
        mesh: CollocationMesh,
        gauges: dict[int, float],
    ) -> None:
        self.program, self.sources, self.mesh, self.gauges = program, sources, mesh, gauges
        self.equations = program.equations
        self.shape = (len(self.equations.channels), *mesh.sizes)
        self.size = len(self.equations.channels) * mesh.points
        self._operators: dict[tuple[int, ...], Tensor] = {}
        self._cached: tuple[tuple[float, ...], list[Tensor]] | None = None
        index = torch.arange(mesh.points, device=mesh.device).reshape(mesh.sizes)
        self._lowered = mesh.lowered() if self.equations.multipliers else None
        self.faces = [index.select(*face_of(c.row)).flatten() for c in program.conditions]

    @property
    def batch(self) -> int:
        """Instances."""
        return self.sources.batch

    def value(self, w: Tensor, times: Sequence[float]) -> Tensor:
        """V at ``w [B, S, C, *sizes]``, of S times; on faces the residuals of conditions."""
        arguments = self._arguments(w, times)
        out = torch.empty_like(w)
        for i, compiled in enumerate(self.program.rows):
            out[:, :, i] = compiled.value([arguments[n] for n in compiled.needs])[0]
        for channel, mean in self.gauges.items():
            off = (w[:, :, channel] * self.mesh.weights).flatten(2).sum(2) - mean
            out[:, :, channel] += off.reshape(*off.shape, *(1,) * len(self.mesh.sizes))
        if self._lowered is not None:
            nodes, extrapolate = self._lowered
            for channel in self.equations.multipliers:
                own = w[:, :, channel].flatten(2)
                rows = (
                    out[:, :, channel]
                    .flatten(2)
                    .index_copy(2, nodes, own[..., nodes] - own @ extrapolate.T)
                )
                out[:, :, channel] = rows.reshape(out[:, :, channel].shape)
        for compiled in self.program.conditions:
            dim, end = self._face(compiled)
            found = compiled.value(self._at_face(compiled, arguments))[0]
            target = out[:, :, compiled.row.channel].select(dim, end)
            target.copy_(found.squeeze(dim) if found.ndim else found)
        return out

    def gaps(self, w: Tensor, t: float) -> list[tuple[Row, Tensor]]:
        """Residuals, at initial data ``[B, C, *sizes]``, of conditions on derivatives in time."""
        arguments, found = self._arguments(w.unsqueeze(1), (t,)), []
        for compiled in self.program.initial_conditions:
            gap = compiled.value(self._at_face(compiled, arguments))[0]
            found.append((compiled.row, gap.expand(len(w), *gap.shape[1:]).flatten(1)))
        return found

    def jacobian(self, w: Tensor, t: float) -> Tensor:
        """∂V/∂w at ``w [B, C, *sizes]``: ``[B or 1, size, size]``, 1 where all share it."""
        arguments = self._arguments(w.unsqueeze(1), (t,))
        return self._matrix(arguments, lambda c: (c.row.slopes, c.slopes), self.gauges)

    def mass(self, t: float) -> Tensor:
        """M ``[B or 1, size, size]``: nothing at the rows of conditions."""
        zero = torch.zeros((1, 1, *self.shape), dtype=torch.float64, device=self.mesh.device)
        arguments = self._arguments(zero, (t,))
        return self._matrix(arguments, lambda c: (c.row.mass, c.mass), {})

    def differential(self) -> Tensor:
        """True at values that follow from their own row's time derivative ``[C, *sizes]``."""
        keep = torch.zeros(self.shape, dtype=torch.bool, device=self.mesh.device)
        for row in self.equations.rows:
            keep[row.channel] = bool(row.mass)
        flat = keep.flatten(1)
        for compiled, nodes in zip(self.program.conditions, self.faces, strict=True):
            flat[compiled.row.channel, nodes] = False
        return keep

    def coefficient(self, row: Row, derivative: ChannelDerivative, t: float) -> Tensor:
        """A slope of a row at the zero state, ``[B, *sizes]``."""
        zero = torch.zeros((1, 1, *self.shape), dtype=torch.float64, device=self.mesh.device)
        compiled = self.program.rows[row.channel]
        arguments = [self._arguments(zero, (t,))[n] for n in compiled.needs]
        slope = compiled.slopes(arguments)[list(row.slopes).index(derivative)]
        speed = slope / compiled.mass(arguments)[0]
        speed = speed[:, 0] if speed.ndim else speed
        return speed.expand(self.batch, *self.mesh.sizes)

    def _matrix(self, arguments: Sequence[Tensor], pick: Any, gauges: dict[int, float]) -> Tensor:
        count, points = len(self.equations.channels), self.mesh.points
        parts: list[tuple[int, Tensor | None, ChannelDerivative, Tensor]] = []
        for compiled in self.program.rows:
            derivatives, compute = pick(compiled)
            found = compute([arguments[n] for n in compiled.needs]) if derivatives else ()
            for derivative, k in zip(derivatives, found, strict=True):
                lead = k.shape[:1] if k.ndim else (1,)
                k = (k[:, 0] if k.ndim else k).expand(*lead, *self.mesh.sizes)
                parts.append((compiled.row.channel, None, derivative, k.flatten(1)))
        for compiled, nodes in zip(self.program.conditions, self.faces, strict=True):
            dim, _ = self._face(compiled)
            derivatives, compute = pick(compiled)
            found = compute(self._at_face(compiled, arguments)) if derivatives else ()
            clear = torch.zeros(1, len(nodes), dtype=torch.float64, device=self.mesh.device)
            parts.append((compiled.row.channel, nodes, (-1, ()), clear))
            for derivative, k in zip(derivatives, found, strict=True):
                lead = k.shape[:1] if k.ndim else (1,)
                k = (k[:, 0] if k.ndim else k).expand(*lead, *self._face_shape(dim))
                parts.append((compiled.row.channel, nodes, derivative, k.flatten(1)))
        batch = max([len(p[3]) for p in parts], default=1)
        shape = (batch, count, points, count, points)
        out = torch.zeros(shape, dtype=torch.float64, device=self.mesh.device)
        for channel in gauges:
            out[:, channel, :, channel, :] += self.mesh.weights.flatten()
        for row, nodes, (channel, order), k in parts:
            if channel < 0:
                out[:, row, nodes] = 0.0
            elif nodes is None:
                out[:, row, :, channel] += k[..., None] * self._operator(order)
            else:
                out[:, row, nodes, channel] += k[..., None] * self._operator(order)[nodes]
        if self._lowered is not None:
            nodes, extrapolate = self._lowered
            for channel in self.equations.multipliers:
                out[:, channel, nodes] = 0.0
                out[:, channel, nodes, channel, nodes] = 1.0
                out[:, channel, nodes, channel] -= extrapolate
        return out.reshape(batch, self.size, self.size)

    def _face_shape(self, dim: int) -> tuple[int, ...]:
        shape = list(self.mesh.sizes)
        shape[dim] = 1
        return tuple(shape)

    def _operator(self, order: tuple[int, ...]) -> Tensor:
        if order not in self._operators:
            self._operators[order] = self.mesh.operator(order)
        return self._operators[order]

    def _face(self, compiled: CompiledRow) -> tuple[int, int]:
        """The dimension of a condition's axis, counted from the end, and 0 or −1 along it."""
        axis, end = face_of(compiled.row)
        return axis - len(self.mesh.sizes), end

    def _at_face(self, compiled: CompiledRow, arguments: Sequence[Tensor]) -> list[Tensor]:
        dim, end = self._face(compiled)
        found = []
        for n in compiled.needs:
            values = arguments[n]
            last = values.shape[dim] - 1
            found.append(values.narrow(dim, last if end else 0, 1) if last else values)
        return found

    def _arguments(self, w: Tensor, times: Sequence[float]) -> list[Tensor]:
        """Values of the program's arguments, each ``[B or 1, S or 1, n1 or 1, …, nd or 1]``."""
        reads = self.equations.unknowns.values()
        return [*(self.mesh.derivative(w[:, :, c], o) for c, o in reads), *self._values(times)]

    def _values(self, times: Sequence[float]) -> list[Tensor]:
        """Input atoms, scalars and coordinates; only those that vary are evaluated again."""
        if self._cached is None or self._cached[0] != tuple(times):
            values = []
            for i, atom in enumerate(self.program.known):
                varies = moves(self.program.problem, atom)
                if self._cached is not None and not varies:
                    values.append(self._cached[1][i])
                    continue
                own = times if varies else times[:1]
                found = [self.sources.value(atom, self.mesh.axes(), t) for t in own]
                values.append(torch.stack(found, 1))
            self._cached = tuple(times), values
        return self._cached[1]
