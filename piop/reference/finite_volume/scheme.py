"""A conservation law on equal cells: coefficients, ghost cells, rates of change, time stepping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, final

import sympy
import torch
from sympy import Expr
from torch import Tensor

from piop.errors import SolverError
from piop.forms.conservation import ConservationLaw, mirror
from piop.forms.terms import name_of, outermost_atoms
from piop.forms.wave_speeds import find_gas
from piop.lowering import compile_expression, compile_expressions
from piop.problem import Coordinate, Problem
from piop.reference.finite_volume.flux import Flow, Variables, contact_slopes, limited_slopes
from piop.reference.input_values import Axes, Sources, inputs_in, moves
from piop.reference.levels import refuse


class CellMesh:
    """Equal cells of a box.

    Args:
        space: The axes of the box.
        sizes: Cells along each axis.
        device: Where tensors live.

    Attributes:
        widths: Width of a cell along each axis.
        centres: Middles of the cells.
        edges: Ends of the cells along each axis.
        faces: For each axis, middles of the faces across it, both ends among them.
        ends: For each axis, middles of the faces of the box at its low and its high end.
    """

    def __init__(
        self, space: Sequence[Coordinate], sizes: tuple[int, ...], device: torch.device
    ) -> None:
        self.space, self.sizes, self.device = space, sizes, device
        self.widths = [c.length / n for c, n in zip(space, sizes, strict=True)]
        self.centres = tuple(self._along(i, torch.arange(n) + 0.5) for i, n in enumerate(sizes))
        self.edges = [self._along(i, torch.arange(n + 1)) for i, n in enumerate(sizes)]
        self.faces = [self._across(i, edge) for i, edge in enumerate(self.edges)]
        self.ends = [
            [self._across(i, e[:1]), self._across(i, e[-1:])] for i, e in enumerate(self.edges)
        ]

    def _across(self, axis: int, along: Tensor) -> tuple[Tensor, ...]:
        """Middles of faces across an axis, at positions along it."""
        return (*self.centres[:axis], along, *self.centres[axis + 1 :])

    def _along(self, axis: int, cells: Tensor) -> Tensor:
        positions = cells.to(self.device, torch.float64)
        c = self.space[axis]
        return c.low + c.length * (positions / self.sizes[axis])

    def quadrature(self, offsets: Tensor) -> Axes:
        """Points at fractions ``offsets [q]`` of every cell, cell after cell."""
        return [
            self._along(i, (torch.arange(n)[:, None] + offsets).reshape(-1))
            for i, n in enumerate(self.sizes)
        ]

    def averages(self, values: Tensor, weights: Tensor) -> Tensor:
        """Cell means ``[B, *sizes]`` of values ``[B, n1 q, …]`` at quadrature points."""
        q, rank = len(weights), len(self.sizes)
        split = values.reshape(len(values), *(m for n in self.sizes for m in (n, q)))
        total = torch.zeros(len(values), *self.sizes, dtype=values.dtype, device=values.device)
        for index in product(range(q), repeat=rank):
            picked = split
            for axis in reversed(range(rank)):
                picked = picked.select(2 + 2 * axis, index[axis])
            total += picked * weights[list(index)].prod()
        return total


class CoefficientValues:
    """Evaluates the coefficients in some expressions: everything in them besides the state.

    Each sample has a time of its own. What does not depend on it is evaluated once per nodes.

    Args:
        problem: The ``Problem``.
        sources: Its inputs, of batch B.
        expressions: Fluxes, speeds, sources, boundary values.
    """

    def __init__(self, problem: Problem, sources: Sources, expressions: Iterable[Expr]) -> None:
        self.problem, self.sources = problem, sources
        every = sympy.Tuple(*expressions)
        inputs = inputs_in(every, problem)
        self.scalars = [i for i in inputs if i.is_Symbol]
        # Symbols that are arguments of an input alone are not needed.
        symbols = every.xreplace({a: sympy.Dummy() for a in outermost_atoms(every)}).free_symbols
        coordinates = [c.symbol for c in problem.coordinates if c.symbol in symbols]
        self.atoms: tuple[Any, ...] = (*coordinates, *inputs)
        self._kept: dict[tuple[Tensor, ...], dict[Any, Tensor]] = {}

    def at(self, nodes: tuple[Tensor, ...], t: Tensor) -> list[Tensor]:
        """Values in the order of ``atoms``, each broadcastable to ``[B, *sizes]``.

        Args:
            nodes: Where.
            t: Time of each sample ``[B]``.
        """
        if nodes not in self._kept:
            fixed = [a for a in self.atoms if not moves(self.problem, a)]
            self._kept[nodes] = {a: self.sources.value(a, nodes, self.sources.start) for a in fixed}
        kept = self._kept[nodes]
        return [kept[a] if a in kept else self._moving(a, nodes, t) for a in self.atoms]

    def _moving(self, atom: Any, nodes: tuple[Tensor, ...], t: Tensor) -> Tensor:
        """Time, or an input that depends on it, each sample at its own time."""
        if atom.is_Symbol:
            return self.sources.value(atom, nodes, t)
        of = self.sources.arguments[name_of(atom)]
        space = zip(self.problem.space, nodes, strict=True)
        axes = {c.name: points if c.name in of else points[:1] for c, points in space}
        mesh = torch.meshgrid(*axes.values(), indexing="ij")
        columns = {n: m.reshape(1, -1) for n, m in zip(axes, mesh, strict=True)}
        columns[self.problem.coordinates[0].name] = t[:, None]
        count = (len(t), mesh[0].numel())
        values = self.sources.at_points(atom, {n: columns[n].expand(count) for n in of})
        return values.reshape(len(t), *mesh[0].shape)


GHOSTS = 3


@final
class Ghosts:
    """Pads states along an axis as the conditions on its two faces say.

    ``periodic`` takes the cells of the other end. ``outflow`` repeats the last cell, so that what
    reaches the face leaves. ``wall`` mirrors the cells with the signs of the law's mirror symmetry.
    ``dirichlet`` sets its unknown and lets the others flow out; the Riemann solver at the face
    takes of it what enters. A face without a condition lets everything flow out.
    """

    def __init__(
        self, problem: Problem, law: ConservationLaw, axis: int, coefficients: CoefficientValues
    ) -> None:
        self.axis, self.coefficients = axis, coefficients
        self.periodic = problem.space[axis].periodic
        name, atoms = problem.space[axis].name, coefficients.atoms
        faces = [problem.boundary.get(f"{name}.{end}", ()) for end in ("min", "max")]
        self.walls = [any(c.mirrored for c in conditions) for conditions in faces]
        signs = mirror(law, axis) if any(self.walls) else ()
        self.signs = torch.tensor(signs, dtype=torch.float64)
        self.given = [
            [
                (problem.unknowns.index(c.unknown), compile_expression(c.prescribed, atoms))
                for c in conditions
                if c.prescribed is not None
            ]
            for conditions in faces
        ]

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
        if self.walls[end]:
            near = u.narrow(dim, 0 if end == 0 else n - GHOSTS, GHOSTS).flip(dim)
            return near * self.signs.to(u).reshape(1, -1, *[1] * (u.ndim - 2))
        ghost = torch.cat([u.narrow(dim, 0 if end == 0 else n - 1, 1)] * GHOSTS, dim)
        if self.given[end]:
            values = self.coefficients.at(mesh.ends[self.axis][end], t)
            for row, compiled in self.given[end]:
                ghost[:, row] = compiled(values).to(u)
        return ghost


@final
class Scheme:
    """MUSCL in every direction by itself, for a batch of samples.

    B. van Leer, J. Comput. Phys. 32 (1979), doi:10.1016/0021-9991(79)90145-1. Second order where
    the solution is smooth, first order at extrema and shocks. The flux out of a cell enters the
    next, so sums over cells change by sources and boundaries alone.
    """

    def __init__(
        self, problem: Problem, law: ConservationLaw, sources: Sources, mesh: CellMesh
    ) -> None:
        self.mesh, self.sources = mesh, sources
        gas = find_gas(law)
        boundary = [v for faces in problem.boundary.values() for c in faces for v in c.values]
        fluxes = [f for axis in law.fluxes for f in axis]
        # A flux that varies in space has speeds that hold no more than it and its inputs.
        self.coefficients = CoefficientValues(problem, sources, (*fluxes, *law.source, *boundary))
        axes = range(len(mesh.sizes))
        self.flows = [Flow(law, axis, gas, self.coefficients.atoms) for axis in axes]
        self.ghosts = [Ghosts(problem, law, axis, self.coefficients) for axis in axes]
        self.variables = Variables(law, gas, tuple(self.coefficients.scalars))
        scalars = self.coefficients.scalars
        self.scalars = [sources.value(s, mesh.centres, sources.start) for s in scalars]
        atoms = (*law.state, *self.coefficients.atoms)
        self._source = (
            compile_expressions(law.source, atoms) if any(s != 0 for s in law.source) else None
        )

    def rate_of_change(self, u: Tensor, t: Tensor, keep: Tensor | None = None) -> Tensor:
        """du/dt of cell means ``u [B, n, *sizes]`` at times ``t [B]``.

        Args:
            u: Cell means.
            t: Time of each sample.
            keep: 1 where slopes are kept, 0 where the scheme falls back to first order,
                ``[B, 1, *sizes]``; everywhere kept by default.
        """
        total = torch.zeros_like(u)
        for axis, width in enumerate(self.mesh.widths):
            total -= self._fluxes(u, t, axis, keep).diff(dim=2 + axis) / width
        if self._source is not None:
            values = self._source([*u.unbind(1), *self.coefficients.at(self.mesh.centres, t)])
            total += torch.stack([v.expand_as(u[:, 0]) for v in values], 1)
        return total

    def wave_rates(self, u: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Rate at which waves cross cells, the largest Σ |λ|/h ``[B]``; where u is admissible.

        A state is admissible where its wave speeds are real and finite (and a gas has density).
        """
        total = torch.zeros_like(u[:, 0])
        coefficients = self.coefficients.at(self.mesh.centres, t)
        for axis, width in enumerate(self.mesh.widths):
            low, high = self.flows[axis].speeds(u, coefficients)
            speed = torch.maximum(low.abs(), high.abs())
            if self.flows[axis].inside:
                speed = torch.maximum(speed, self._between(u, t, axis))
            total = total + speed / width
        good = torch.isfinite(total)
        return total.masked_fill(~good, 0.0).flatten(1).amax(1), good

    def _fluxes(self, u: Tensor, t: Tensor, axis: int, keep: Tensor | None) -> Tensor:
        """Fluxes through all faces across an axis, ``[B, n, …, N + 1, …]``."""
        dim, cells = 2 + axis, u.shape[2 + axis]
        padded = self.ghosts[axis].pad(u, self.mesh, t)
        w = self.variables.of(padded, self.scalars)
        slopes = limited_slopes(w, dim).narrow(dim, 1, cells + 2)
        if self.variables.gas is not None:
            row, pressure = self.variables.gas.density, w[:, self.variables.gas.energy]
            slopes[:, row] = contact_slopes(w[:, row], pressure, slopes[:, row], dim - 1)
        half = 0.5 * (slopes if keep is None else slopes * beside(keep, dim))
        middle = w.narrow(dim, 2, cells + 2)
        low, high = (middle - half).narrow(dim, 1, cells + 1), middle + half
        sides = torch.stack([high.narrow(dim, 0, cells + 1), low])
        flow, coefficients = self.flows[axis], self.coefficients.at(self.mesh.faces[axis], t)
        states = self.variables.back(sides, self.scalars)
        speeds = flow.speeds(states, coefficients)
        good = torch.isfinite(speeds[0] + speeds[1])
        if not bool(good.all()):  # first order where the edge of a cell is not admissible
            pair = [padded.narrow(dim, GHOSTS - 1 + i, cells + 1) for i in range(2)]
            states = torch.where(good[:, :, None], states, torch.stack(pair))
            speeds = flow.speeds(states, coefficients)
        return flow.interface(states, speeds, coefficients)

    def _between(self, u: Tensor, t: Tensor, axis: int) -> Tensor:
        """Largest |λ| between each cell and its neighbours."""
        dim, cells = 2 + axis, u.shape[2 + axis]
        padded = self.ghosts[axis].pad(u, self.mesh, t)
        pair = torch.stack([padded.narrow(dim, GHOSTS - 1 + i, cells + 1) for i in range(2)])
        flow, coefficients = self.flows[axis], self.coefficients.at(self.mesh.faces[axis], t)
        low, high = flow.bounds(pair, flow.speeds(pair, coefficients), coefficients)
        speed = torch.maximum(low.abs(), high.abs())
        return torch.maximum(speed.narrow(dim - 1, 0, cells), speed.narrow(dim - 1, 1, cells))


def beside(values: Tensor, dim: int, periodic: bool = False) -> Tensor:
    """Add a cell at both ends of an axis: that of the other end if periodic, else a copy."""
    ends = [values.narrow(dim, k, 1) for k in (0, values.shape[dim] - 1)]
    low, high = reversed(ends) if periodic else ends
    return torch.cat([low, values, high], dim)


COURANT = 0.8
_FIRST = 4  # steps at the start that are shortened: the waves of a jump are not in the cells yet
_SHORT = 0.25
_HALVINGS = 12
_REACH = 2  # cells on either side of a bad one that fall back to first order


@dataclass
class FiniteVolumeStepper:
    """SSP-RK3 of C.-W. Shu and S. Osher, J. Comput. Phys. 77 (1988), eq. 2.18.

    doi:10.1016/0021-9991(88)90177-5

    Where a step leaves a cell inadmissible it is taken again: first order near the cell, first
    order everywhere, then half as long. The sums over cells stay what they were.

    Attributes:
        scheme: The law on a mesh.
        names: Number of each sample, for messages.
        steps: Most steps allowed.
        longest: Longest step taken so far, per sample ``[B]``.
        bound: Times ``[B, 1]`` → the longest step that resolves the data; None where all do.
        progress: Takes the time that all samples have reached.
        count: Steps taken so far.
    """

    scheme: Scheme
    names: Sequence[int]
    steps: int
    longest: Tensor
    bound: Callable[[Tensor], Tensor] | None = None
    progress: Callable[[float], None] = lambda t: None
    count: int = 0

    def run(self, u: Tensor, start: float, times: tuple[float, ...]) -> Iterator[Tensor]:
        """Yield the cell means ``[B, n, *sizes]`` at each time."""
        t = torch.full((len(u),), start, dtype=u.dtype, device=u.device)
        rate, good = self.scheme.wave_rates(u, t)
        message = "the initial state is not finite, or its wave speeds are not real"
        refuse(~good, self.names, message)
        for end in times:
            while bool((t < end).any()):
                u, t, rate = self._step(u, t, rate, end)
                self.progress(float(t.min()))
            yield u

    def _step(
        self, u: Tensor, t: Tensor, rate: Tensor, end: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        fraction = COURANT * (_SHORT if self.count < _FIRST else 1.0)
        self.count += 1
        if self.count > self.steps:
            raise SolverError(
                f"more than {self.steps} steps; allow more by limits, or a coarser grid"
            )
        left = end - t
        step = torch.minimum(fraction / rate.clamp_min(1e-300), left)
        if self.bound is not None:
            step = torch.minimum(step, self.bound(t[:, None])[:, 0])
        landing = left - step <= 1e-9 * step  # no tiny step at the end
        step = torch.where(landing, left, step)
        new = self._rk3(u, t, step, None)
        rate, good = self.scheme.wave_rates(new, t + step)
        if not bool(good.all()):
            new, step, rate = self._again(u, t, step, new, good)
            landing = landing & (step == left)
        self.longest = torch.maximum(self.longest, step)
        return new, torch.where(landing, torch.full_like(t, end), t + step), rate

    def _again(
        self, u: Tensor, t: Tensor, step: Tensor, new: Tensor, good: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        keep = (~_near(~good)).to(u)[:, None]
        for attempt in range(_HALVINGS):
            failed = ~good.flatten(1).all(1)
            step = torch.where(failed & (attempt > 1), step / 2, step)
            other = self._rk3(u, t, step, keep)
            new = torch.where(failed.reshape(-1, *[1] * (u.ndim - 1)), other, new)
            rate, good = self.scheme.wave_rates(new, t + step)
            if bool(good.all()):
                return new, step, rate
            keep = torch.zeros_like(keep)
        sample = int((~good.flatten(1).all(1)).nonzero()[0])
        raise SolverError(
            f"sample {self.names[sample]}: no admissible step at t = {float(t[sample]):.6g} with "
            f"{self.scheme.mesh.sizes} cells; does the solution blow up, or leave where its wave "
            "speeds are real?"
        )

    def _rk3(self, u: Tensor, t: Tensor, step: Tensor, keep: Tensor | None) -> Tensor:
        h = step.reshape(-1, *[1] * (u.ndim - 1))
        rate = self.scheme.rate_of_change
        first = u + h * rate(u, t, keep)
        second = 0.75 * u + 0.25 * (first + h * rate(first, t + step, keep))
        return (u + 2 * (second + h * rate(second, t + step / 2, keep))) / 3


def _near(bad: Tensor) -> Tensor:
    """Cells within reach of a bad one, along every axis."""
    near = bad.to(torch.float64)[:, None]
    pool = {1: torch.nn.functional.max_pool1d, 2: torch.nn.functional.max_pool2d}[bad.ndim - 1]
    return pool(near, 2 * _REACH + 1, stride=1, padding=_REACH)[:, 0] > 0
