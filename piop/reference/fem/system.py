"""A weak form on one mesh: residuals, matrices, solutions, and unknowns recovered from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from scipy.sparse import block_array, coo_array, csc_array
from scipy.sparse.linalg import splu
from torch import Tensor

from piop.errors import SolverError
from piop.forms.terms import outermost_atoms
from piop.forms.weak import Integrand, WeakForm
from piop.problem import Problem
from piop.reference.fem.space import Array, Evaluate, PointEvaluator, Quadrature, Space
from piop.reference.input_values import Sources
from piop.reference.levels import refuse

_STEPS = 40  # of Newton's method
_SMALL = 1e-11  # step of Newton's method, relative to the solution
_SHORTEST = 2.0**-12  # fraction of a step that is taken
_JUMP = 0.2  # of the whole range: what changes by more inside a triangle jumps
_FACTORISE: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.01,
    "options": {"SymmetricMode": True},
}
"""Order as for a symmetric matrix, whose pattern it is; pivots leave the diagonal if they must."""


def unknowns_at(quadrature: Quadrature, state: Array) -> list[Tensor]:
    """Values and derivatives of unknowns ``[B, C, count]`` at the points of a quadrature."""
    fields = [f for c in range(state.shape[1]) for f in quadrature.fields(state[:, c])]
    return [torch.from_numpy(np.ascontiguousarray(f)) for f in fields]


def assemble_blocks(
    blocks: Sequence[tuple[Quadrature, int, int, Array]], count: int, channels: int
) -> coo_array:
    """Add up element matrices.

    Args:
        blocks: Quadrature, equation, unknown and ``[a, b, E]`` of each.
        count: Number of basis functions.
        channels: Number of equations and unknowns.
    """
    rows, columns, entries = [], [], []
    for quadrature, i, j, block in blocks:
        row, column = quadrature.numbers[:, None], quadrature.numbers[None]
        rows.append(np.broadcast_to(row + i * count, block.shape).ravel())
        columns.append(np.broadcast_to(column + j * count, block.shape).ravel())
        entries.append(block.ravel())
    indices, size = (np.concatenate(rows), np.concatenate(columns)), channels * count
    return coo_array((np.concatenate(entries), indices), (size, size))


@final
class Part:
    """One integral of a weak form, over the shape or over a face.

    Args:
        problem: The ``Problem``.
        form: Its weak form.
        integrand: What is integrated.
        quadrature: Where.
    """

    def __init__(
        self, problem: Problem, form: WeakForm, integrand: Integrand, quadrature: Quadrature
    ) -> None:
        self.quadrature, self.integrand = quadrature, integrand
        unknowns = [a for group in form.atoms for a in group]
        self.terms = PointEvaluator(problem, [e for _, _, e in integrand.terms], unknowns)
        self.slopes = PointEvaluator(problem, [s[-1] for s in integrand.slopes], unknowns)

    def at(self, pointwise: PointEvaluator, sources: Sources) -> Evaluate:
        """Its terms, or its slopes, at the quadrature points."""
        return pointwise.at(sources, self.quadrature.points, self.quadrature.normals)

    def residual(self, terms_at: Evaluate, state: Array) -> Array:
        """The integral for every test function ``[B, C, count]``."""
        values = terms_at(unknowns_at(self.quadrature, state))
        sorted_by: dict[int, dict[int, Array]] = {}
        for (i, k, _), value in zip(self.integrand.terms, values, strict=True):
            own = sorted_by.setdefault(i, {})
            own[k] = own[k] + value if k in own else value
        found = np.zeros_like(state)
        for i, terms in sorted_by.items():
            found[:, i] = self.quadrature.vector(terms)
        return found

    def blocks(self, slopes_at: Evaluate, state: Array) -> list[tuple[int, int, Array]]:
        """Element matrices of one sample: (equation, unknown, ``[a, b, E]``)."""
        values = slopes_at(unknowns_at(self.quadrature, state))
        sorted_by: dict[tuple[int, int], dict[tuple[int, int], Array]] = {}
        for (i, k, j, m, _), value in zip(self.integrand.slopes, values, strict=True):
            own = sorted_by.setdefault((i, j), {})
            own[k, m] = own[k, m] + value[0] if (k, m) in own else value[0]
        return [(i, j, self.quadrature.matrix(s)) for (i, j), s in sorted_by.items()]


@final
class FiniteElementSystem:
    """A weak form on one mesh.

    Args:
        problem: The ``Problem``.
        form: Its weak form.
        space: Functions on the mesh.
    """

    def __init__(self, problem: Problem, form: WeakForm, space: Space) -> None:
        self.problem, self.form, self.space = problem, form, space
        self.faces = [Part(problem, form, form.faces[f], q) for f, q in space.faces.items()]
        self.parts = [Part(problem, form, form.volume, space.volume), *self.faces]
        coordinates = {c.symbol for c in problem.coordinates}
        fixed = [e for e in form.jumps if not outermost_atoms(e) and e.free_symbols <= coordinates]
        self.jumps = PointEvaluator(problem, form.jumps, [])
        self.fixed_jumps = PointEvaluator(problem, fixed, [])
        self.shared: Any = None
        self.prescribed = {
            (face, i): PointEvaluator(problem, [value], [])
            for face, given in form.values.items()
            for i, value in given.items()
            if face in space.on_face  # other regions of the family may have it
        }
        self.channels = len(form.atoms)
        self.free = np.ones((self.channels, space.count), dtype=bool)
        for face, i in self.prescribed:
            self.free[i, space.on_face[face]] = False
        self.means = {i: m for i, m in form.gauge.items() if self.free[i].all()}

    def given(self, sources: Sources) -> Array:
        """Prescribed values at the nodes that have one, zero elsewhere ``[B, C, count]``."""
        state = np.zeros((sources.batch, self.channels, self.space.count))
        for (face, i), value in self.prescribed.items():
            nodes = self.space.on_face[face]
            state[:, i, nodes] = value.at(sources, self.space.points[nodes])([])[0]
        return state

    def solve(self, sources: Sources, samples: Sequence[int]) -> Array:
        """Solve for all samples ``[B, C, count]``.

        Raises:
            SolverError: If a matrix is singular, Newton's method fails, or data are not finite.
        """
        given = self.given(sources)
        if self.form.linear and self.form.shared and not self.form.jumps:
            return self._step(sources, given, list(samples))
        solve = self._step if self.form.linear else self._newton
        found = []
        for b, sample in enumerate(samples):
            own = sources.take([b])
            self.parts = [*self._volume(own, self.jumps), *self.faces]
            found.append(solve(own, given[b : b + 1], [sample]))
        return np.concatenate(found)

    def imbalance(self, sources: Sources, state: Array) -> Array:
        """Sums of sources and fluxes, of each equation that leaves a constant free.

        Args:
            sources: Inputs of B samples.
            state: Their solutions ``[B, C, count]``.

        Returns:
            Relative to the sums of their absolute values ``[B, C]``; zero for other equations.
        """
        found = np.zeros(state.shape[:2])
        for b in range(len(state) if self.means else 0):
            own, w = sources.take([b]), state[b : b + 1]
            parts = [*self._volume(own, self.jumps), *self.faces]
            terms = [p.at(p.terms, own) for p in parts]
            for i in self.means:
                left, data = (
                    np.sum([p.residual(t, v)[0, i] for p, t in zip(parts, terms, strict=True)], 0)
                    for v in (w, np.zeros_like(w))
                )
                found[b, i] = left.sum() / max(np.abs(data).sum(), 1e-300)
        return found

    def _volume(self, sources: Sources, jumps: PointEvaluator) -> list[Part]:
        """The integral over the shape; triangles in which data jump are subdivided."""
        volume = self.space.volume
        divided = np.zeros(volume.weights.shape[0], dtype=bool)
        for values in jumps.at(sources, volume.points)([]):
            whole = np.broadcast_to(values, (len(values), len(volume.points)))
            most = _JUMP * np.ptp(whole, axis=1)
            inside = np.ptp(whole.reshape(len(values), *volume.weights.shape), axis=2)
            divided |= (inside > most[:, None]).any(0)
        some = divided.any() and not divided.all()
        quadratures = self.space.divided(divided) if some else (volume,)
        return [Part(self.problem, self.form, self.form.volume, q) for q in quadratures]

    def _step(self, sources: Sources, given: Array, samples: list[int]) -> Array:
        """One step of Newton's method from zero, which solves a linear problem."""
        terms = [p.at(p.terms, sources) for p in self.parts]
        state = np.zeros_like(given)
        residual = self._residual(terms, state, given)
        bad = torch.from_numpy(~np.isfinite(residual))
        refuse(bad, samples, "a coefficient, the source or a condition is not finite")
        return state - self._inverse(sources, state[:1], samples[0])(residual, state)

    def _inverse(self, sources: Sources, state: Array, sample: int) -> Any:
        """Return the solver of a linear problem: one for all samples whose coefficients are equal.

        That solver divides the triangles in which coefficients jump, and not those of any sample's
        source: no sample depends on the others.
        """
        if self.shared is not None:
            return self.shared
        first, parts = sources.take([0]), self.parts
        if self.form.shared:
            parts = [*self._volume(first, self.fixed_jumps), *self.faces]
        found = self._factorised(parts, [p.at(p.slopes, first) for p in parts], state, sample)
        self.shared = found if self.form.shared else None
        return found

    def _newton(self, sources: Sources, given: Array, samples: list[int]) -> Array:
        """Solve a nonlinear problem by damped Newton steps.

        Prescribed values are met as the steps go, so that a body is not torn at its boundary first.
        """
        fixed = ~self.free
        mean = (given * fixed).sum(2) / np.maximum(fixed.sum(1), 1)
        start = np.repeat(mean[:, :, None], given.shape[2], 2)
        try:
            return self._newton_from(start, sources, given, samples)
        except SolverError:
            if fixed.any(1).all():
                raise
        # Zero may be where u**3 has no slope, which leaves a matrix singular: begin beside it.
        return self._newton_from(start + ~fixed.any(1, keepdims=True), sources, given, samples)

    def _newton_from(
        self, state: Array, sources: Sources, given: Array, samples: list[int]
    ) -> Array:
        """Solve from a state.

        A step is halved until the next one with the same matrix is shorter: the natural test
        (P. Deuflhard, Newton Methods for Nonlinear Problems, 2004, sec. 3.3).
        """
        terms = [p.at(p.terms, sources) for p in self.parts]
        slopes = [p.at(p.slopes, sources) for p in self.parts]
        residual = self._residual(terms, state, given)
        length = math.inf
        for _ in range(_STEPS):
            if not np.isfinite(residual).all():
                raise SolverError(
                    f"sample {samples[0]}: the equations are not finite at the constant from "
                    "which Newton's method starts"
                )
            solve = self._factorised(self.parts, slopes, state, samples[0])
            step = solve(residual, state)
            length, fraction = float(np.linalg.norm(step)), 1.0
            while True:
                trial = state - fraction * step
                residual = self._residual(terms, trial, given)
                shorter, finite = (1 - fraction / 4) * length, np.isfinite(residual).all()
                if finite and np.linalg.norm(solve(residual, trial)) <= shorter:
                    break
                small = length <= _SMALL * np.linalg.norm(trial)
                fraction /= 2
                if small or fraction < _SHORTEST:
                    break
            if length <= _SMALL * np.linalg.norm(trial):
                return trial
            if fraction < _SHORTEST:
                break
            state = trial
        size = max(float(np.linalg.norm(state)), 1e-300)
        raise SolverError(
            f"sample {samples[0]}: Newton's method does not converge; its last step was "
            f"{length / size:.1e} of the solution"
        )

    def _residual(self, terms: Sequence[Evaluate], state: Array, given: Array) -> Array:
        """Residual of the equations; where values are prescribed, the difference from them."""
        parts = zip(self.parts, terms, strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.sum([part.residual(own, state) for part, own in parts], axis=0)
        return np.where(self.free, found, state - given)

    def _factorised(
        self, parts: Sequence[Part], slopes: Sequence[Evaluate], state: Array, sample: int
    ) -> Any:
        """Return a function of residuals and states ``[B, C, count]`` that solves for a step."""
        blocks = [
            (part.quadrature, *block)
            for part, slopes_at in zip(parts, slopes, strict=True)
            for block in part.blocks(slopes_at, state)
        ]
        matrix = assemble_blocks(blocks, self.space.count, self.channels).tocsr()
        free = self.free.ravel()
        kept, across = matrix[free][:, free], matrix[free][:, ~free]
        means = self.means
        rows = np.array([self._mean(i)[free] for i in means])
        if means:
            kept = block_array([[kept, rows.T], [rows, None]])
        try:
            factors = splu(csc_array(kept), **_FACTORISE)
        except RuntimeError:
            raise SolverError(
                f"sample {sample}: the equations have no unique solution: their matrix is singular"
            ) from None

        def solve(residual: Array, state: Array) -> Array:
            step = residual.reshape(len(residual), -1).copy()
            right = step[:, free] - (across @ step[:, ~free].T).T
            if means:
                off = state.reshape(len(state), -1)[:, free] @ rows.T - np.array([*means.values()])
                right = np.concatenate([right, off], 1)
            found = factors.solve(np.ascontiguousarray(right.T)).T
            step[:, free] = found[:, : np.count_nonzero(free)]
            return step.reshape(residual.shape)

        return solve

    def _mean(self, channel: int) -> Array:
        """The mean of an unknown over the shape, as a row."""
        one = np.ones((1, 1))
        row = np.zeros((self.channels, self.space.count))
        row[channel] = self.space.volume.vector({0: one})[0] / self.space.volume.weights.sum()
        return row.ravel()


@final
class Recovery:
    """Completes solutions on one mesh by the unknowns that follow from them.

    Each is the continuous function of the elements that is nearest in L2 to the right side of its
    equation. Derivatives jump from triangle to triangle; these functions do not, and have values at
    nodes.

    Args:
        problem: The ``Problem``.
        form: Its weak form.
        space: Functions on the mesh.
    """

    def __init__(self, problem: Problem, form: WeakForm, space: Space) -> None:
        self.form, self.space = form, space
        unknowns = [atom for group in form.atoms for atom in group]
        self.values = PointEvaluator(problem, list(form.recovered.values()), unknowns)
        self.factors: Any = None
        if form.recovered:  # the mass matrix, ∫ v_a v_b over the shape
            block = space.volume.matrix({(0, 0): np.ones(1)})
            mass = assemble_blocks([(space.volume, 0, 0, block)], space.count, 1)
            self.factors = splu(csc_array(mass))

    def complete(self, sources: Sources, state: Array, samples: Sequence[int]) -> Array:
        """Add the recovered unknowns to those solved for.

        Args:
            sources: Inputs of B samples.
            state: ``[B, unknowns solved for, count]``.
            samples: Their numbers, for messages.

        Returns:
            ``[B, C, count]``, all channels of the problem.

        Raises:
            SolverError: If an equation gives a value that is not finite.
        """
        form, quadrature = self.form, self.space.volume
        whole = np.empty((len(state), len(form.solved) + len(form.recovered), state.shape[2]))
        whole[:, list(form.solved)] = state
        if self.factors is None:
            return whole
        values = self.values.at(sources, quadrature.points)(unknowns_at(quadrature, state))
        for channel, value in zip(form.recovered, values, strict=True):
            right = np.broadcast_to(quadrature.vector({0: value}), (len(state), self.space.count))
            bad = torch.from_numpy(~np.isfinite(right))
            refuse(bad, samples, f"equation {channel + 1} gives a value that is not finite")
            whole[:, channel] = self.factors.solve(np.ascontiguousarray(right.T)).T
        return whole
