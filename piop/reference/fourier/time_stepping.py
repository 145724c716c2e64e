"""ETDRK4: coefficients, one step, a problem discretised for it, and steps through save times."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.forms.linear_nonlinear_split import split_linear
from piop.linalg import invert
from piop.reference.features.along_paths import narrow_terms
from piop.reference.fourier.grid import (
    Multiplier,
    PeriodicGrid,
    Symbols,
    Table,
    mode_gaps,
    multiply,
    power,
    tail,
)
from piop.reference.fourier.narrow_terms import DoneStep, SpectralPaths
from piop.reference.fourier.nonlinear import Nonlinear, stabilise
from piop.reference.fourier.products import NonlinearTerm, PointwiseProducts
from piop.reference.fourier.step_lengths import Bound, SpectralLevel, steps_between
from piop.reference.input_values import Sources
from piop.reference.solution import Request


@final
class ETDRK4:
    """One step of w_t = L w + M F(w, t).

    Args:
        nonlinear: F, with the symbols L and M.
        step: h, in units of time.
    """

    def __init__(self, nonlinear: Nonlinear, step: float) -> None:
        states, keep = nonlinear.split.states, nonlinear.symbols.grid.interior()
        self.step, self.nonlinear = step, nonlinear
        tables = _coefficients(nonlinear.symbols, states, step)
        whole, half = ({k: s * keep for k, s in tables[name].items()} for name in ("E", "E2"))
        self.whole, self.half = Multiplier(whole, states, states), Multiplier(half, states, states)
        if nonlinear.products:
            q, *f = (multiply(tables[k], nonlinear.prefactors) for k in ("Q", "f1", "f2", "f3"))
            change = {(i, j): v - 1 if i == j else v for (i, j), v in half.items()}
            self.change = Multiplier(change, states, states)
            self.first, self.third, self.f1, self.f2, self.f3 = (
                Multiplier(c, states, nonlinear.products)
                for c in (q, {k: 2 * v for k, v in q.items()}, *f)
            )

    def __call__(self, w: Tensor, now: Tensor | None, t: float) -> Tensor:
        """Advance ``w [B, states, *modes]`` from t to t + h.

        Args:
            w: Spectra of the state.
            now: F(w, t) ``[B, products, *modes]``, which the caller has for its own use; None
                without products, where the step is exact.
            t: Time.

        Returns:
            The new state; ``w`` is left alone.
        """
        if now is None:
            return self.whole(w)
        # Sums are formed as soon as their terms are there, while those are in the cache. The third
        # stage E2 a + Q (2 F(b) − F(w)) is written with Q F(w) = a − E2 w.
        evaluate, middle = self.nonlinear.evaluate, t + self.step / 2
        half = self.half(w)
        a = self.first.plus(half, now)
        new = self.f1.add(now, self.whole(w))
        c = self.change.plus(half, a)
        term = evaluate(a, middle)
        b = self.first.add(term, half)
        self.f2.add(term, new)
        term = evaluate(b, middle)
        self.third.add(term, c)
        self.f2.add(term, new)
        return self.f3.add(evaluate(c, t + self.step), new)


_CIRCLE_POINTS = 32  # on the circle: below 1e-14 on the real and the imaginary axis
_WELL_CONDITIONED = 1e3  # of eigenvectors; rounding is this times machine precision


def scalar_coefficients(symbol: Tensor, step: float) -> dict[str, Tensor]:
    """E, E2, Q, f1, f2, f3 of a scalar symbol.

    Args:
        symbol: L, complex, any shape, per unit of time.
        step: h, in units of time.

    Returns:
        Tensors of the symbol's shape; Q, f1, f2 and f3 carry the factor h.
    """
    z = step * symbol
    means = [torch.zeros_like(z) for _ in range(4)]
    for j in range(_CIRCLE_POINTS):
        r = z + cmath.exp(2j * math.pi * (j + 0.5) / _CIRCLE_POINTS)
        e, cube = torch.exp(r), r**3
        means[0] += (torch.exp(r / 2) - 1) / r
        means[1] += (-4 - r + e * (4 - 3 * r + r * r)) / cube
        means[2] += 2 * (2 + r + e * (r - 2)) / cube
        means[3] += (-4 - 3 * r - r * r + e * (4 - r)) / cube
    means = [m * (step / _CIRCLE_POINTS) for m in means]
    if not symbol.imag.any():  # the means of a real symbol are real up to rounding
        means = [m.real.to(z.dtype) for m in means]
    names = ("E", "E2", "Q", "f1", "f2", "f3")
    return dict(zip(names, (torch.exp(z), torch.exp(z / 2), *means), strict=True))


def coupled_coefficients(blocks: Tensor, step: float) -> dict[str, Tensor]:
    """E, E2, Q, f1, f2, f3 of one matrix per wavenumber.

    Blocks with well-conditioned eigenvectors go through their eigenvalues; the others (a wave
    equation at k = 0 is defective) through the exponential of an augmented matrix: the first block
    row of exp [[A, I, 0, 0], [0, 0, I, 0], [0, 0, 0, I], 0] is e^A, φ1, φ2, φ3 (A. H. Al-Mohy and
    N. J. Higham, SIAM J. Sci. Comput. 33 (2011), thm. 2.1, doi:10.1137/100788860).

    Args:
        blocks: L, complex ``[..., n, n]``, per unit of time.
        step: h, in units of time.

    Returns:
        Tensors of the blocks' shape.
    """
    values, vectors = torch.linalg.eig(blocks.cpu())
    spread = torch.linalg.svdvals(vectors)
    good = spread[..., 0] < _WELL_CONDITIONED * spread[..., -1]
    identity = torch.eye(blocks.shape[-1], dtype=blocks.dtype)
    vectors = torch.where(good[..., None, None], vectors, identity)
    inverse, _ = invert(vectors)  # never singular: of condition below 1e3, or the identity
    scalar = scalar_coefficients(values, step)
    out = {k: (vectors * s[..., None, :]) @ inverse for k, s in scalar.items()}
    if not good.all():
        defective = _augmented(blocks.cpu()[~good], step)
        for name, value in defective.items():
            out[name][~good] = value
    return {k: v.to(blocks.device) for k, v in out.items()}


def _augmented(blocks: Tensor, step: float) -> dict[str, Tensor]:
    e, p1, p2, p3 = _phi(step * blocks)
    e2, q, _, _ = _phi(step / 2 * blocks)
    return {
        "E": e,
        "E2": e2,
        "Q": step / 2 * q,
        "f1": step * (p1 - 3 * p2 + 4 * p3),
        "f2": step * (2 * p2 - 4 * p3),
        "f3": step * (-p2 + 4 * p3),
    }


def _phi(matrix: Tensor) -> list[Tensor]:
    """e^A, φ1(A), φ2(A), φ3(A) of ``[m, n, n]``."""
    n = matrix.shape[-1]
    big = matrix.new_zeros((*matrix.shape[:-2], 4 * n, 4 * n))
    big[..., :n, :n] = matrix
    for i in range(3):
        rows, columns = slice(i * n, (i + 1) * n), slice((i + 1) * n, (i + 2) * n)
        big[..., rows, columns] = torch.eye(n, dtype=matrix.dtype)
    return list(torch.matrix_exp(big)[..., :n, :].split(n, dim=-1))


def _coefficients(symbols: Symbols, states: int, step: float) -> dict[str, Table]:
    """E, E2, Q, f1, f2, f3 of h·L, without entries that are zero everywhere."""
    linear, grid = symbols.linear, symbols.grid
    if all(r == c for r, c in linear):
        zero = torch.zeros((1, *grid.modes), dtype=torch.complex128, device=grid.device)
        entries = torch.broadcast_tensors(*(linear.get((i, i), zero) for i in range(states)))
        scalar = scalar_coefficients(torch.stack(entries, 1), step)
        return {k: {(i, i): v[:, i] for i in range(states)} for k, v in scalar.items()}
    batch = max(len(s) for s in linear.values())
    shape = (batch, *grid.modes, states, states)
    blocks = torch.zeros(shape, dtype=torch.complex128, device=grid.device)
    for (r, c), symbol in linear.items():
        blocks[..., r, c] = symbol
    coupled, pairs = coupled_coefficients(blocks, step), list(product(range(states), repeat=2))
    return {
        k: {(i, j): v[..., i, j].contiguous() for i, j in pairs if i == j or v[..., i, j].any()}
        for k, v in coupled.items()
    }


_INTERVAL = 24  # steps between measurements of the tail


@dataclass
class SpectralTrajectory:
    """One run.

    Attributes:
        level: Its level.
        grid: Its grid.
        spectra: States at the save times ``[B, T, states, *modes]``.
        tail: Largest tail, root mean square per state and axis ``[B, states, d]``.
        middle: The same for the middle of the spectrum: tells how fast it decays.
        rough: Largest tail of a product relative to the product, per axis ``[B, d]``.
        rough_middle: The same for the middle of its spectrum.
        until: First time at which a sample was not finite, else inf ``[B]``.
        missed: Relative error by what terms of the equations hide between steps ``[B]``.
    """

    level: SpectralLevel
    grid: PeriodicGrid
    spectra: Tensor
    tail: Tensor
    middle: Tensor
    rough: Tensor
    rough_middle: Tensor
    until: Tensor
    missed: Tensor

    @property
    def ended(self) -> bool:
        """Whether no sample is finite any more."""
        return bool((self.until < math.inf).all())


@final
class SpectralStepper:
    """Steps a system on one grid; keeps the coefficients of each step length.

    Args:
        nonlinear: F, with the symbols of the linear part.
        paths: Checks steps for terms that are narrow in an unknown; None where there are none.
    """

    def __init__(self, nonlinear: Nonlinear, paths: SpectralPaths | None = None) -> None:
        self.grid, self.nonlinear, self.paths = nonlinear.symbols.grid, nonlinear, paths
        self._schemes: dict[float, ETDRK4] = {}

    def scheme(self, step: float) -> ETDRK4:
        """Return the scheme of a step length; lengths equal to 9 digits share one."""
        key = float(f"{step:.9e}")
        if key not in self._schemes:
            if len(self._schemes) > 64:
                self._schemes.clear()
            self._schemes[key] = ETDRK4(self.nonlinear, step)
        return self._schemes[key]

    def right_side(self, w: Tensor, t: float) -> Tensor:
        """w_t = L w + M F(w, t) ``[B, states, *modes]``."""
        states, symbols = w.shape[1], self.nonlinear.symbols
        out = Multiplier(symbols.linear, states, states)(w)
        if self.nonlinear.products:
            spectra = self.nonlinear.evaluate(w, t)
            Multiplier(self.nonlinear.prefactors, states, spectra.shape[1]).add(spectra, out)
        return out

    def run(
        self,
        w: Tensor,
        start: float,
        times: Sequence[float],
        level: SpectralLevel,
        longest: Bound | None = None,
        most: float = math.inf,
        progress: Callable[[float], None] = lambda t: None,
    ) -> SpectralTrajectory:
        """Step from ``start`` and keep the state at each of ``times`` (ascending, ≥ start).

        Args:
            w: State at the start ``[B, states, *modes]``.
            start: Its time.
            times: When to keep it.
            level: Resolution.
            longest: Start and end of a step → longest one that resolves the data there, on the
                coarsest level.
            most: Steps allowed.
            progress: Takes the time that is reached.

        Raises:
            SolverError: If the data need more steps.
        """
        _keep_freed_blocks()
        batch, states = w.shape[:2]
        rank = len(self.grid.sizes)
        out = w.new_empty((batch, len(times), states, *self.grid.modes))
        tails, middles = out.real.new_zeros(2, batch, states, rank)
        rough, inner = out.real.new_zeros(2, batch, rank)
        until = out.real.new_full((batch,), math.inf)
        missed = torch.zeros_like(until) if self.paths is None else self.paths.missed
        result = SpectralTrajectory(
            level, self.grid, out, tails, middles, rough, inner, until, missed
        )
        t = start
        for i, time in enumerate(times):
            if time > t:
                steps = steps_between(t, time, level, longest if self.nonlinear.products else None)
                taken = 0
                for done in self._advance(w, steps, level.multiple):
                    if taken > most:
                        raise SolverError(
                            f"more than {most} steps to resolve data, or terms of the equations, "
                            "in time"
                        )
                    w = done.end
                    if taken % _INTERVAL < done.parts:
                        self._measure(done.start, done.products, done.time, result)
                        progress(done.time)
                        if result.ended:
                            break
                    taken += done.parts
            t = time
            out[:, i] = w
            if result.ended:
                out[:, i + 1 :] = math.nan
                break
        self._measure(w, None, t, result)
        return result

    def _advance(
        self, w: Tensor, steps: Iterator[tuple[float, float]], multiple: int
    ) -> Iterator[DoneStep]:
        """Take steps, and shorter ones where they hide something."""

        def one(w: Tensor, t: float, length: float) -> tuple[Tensor | None, Tensor]:
            now = self.nonlinear.evaluate(w, t) if self.nonlinear.products else None
            return now, self.scheme(length)(w, now, t)

        if self.paths is not None:
            yield from self.paths.advance(w, steps, multiple, one)
            return
        for t, length in steps:
            done = DoneStep(t, length, w, *one(w, t, length))
            w = done.end
            yield done

    def _measure(self, w: Tensor, now: Tensor | None, t: float, result: SpectralTrajectory) -> None:
        mean = w[(..., *(0,) * len(self.grid.sizes))].sum(1)
        broken = ~torch.isfinite(mean.real) & (result.until == math.inf)
        result.until[broken] = t
        grid, gaps = self.grid, mode_gaps(w, self.grid)
        for own, band in ((result.tail, (0.9, 1.0)), (result.middle, (0.4, 0.5))):
            torch.maximum(own, tail(w, grid, *band, gaps).sqrt(), out=own)
        if now is not None:
            total, gaps = power(now, grid)[..., None].clamp_min(1e-300), mode_gaps(now, grid)
            for own, band in ((result.rough, (0.9, 1.0)), (result.rough_middle, (0.4, 0.5))):
                part = (tail(now, grid, *band, gaps) / total).sqrt().amax(1)
                torch.maximum(own, part.nan_to_num(), out=own)


def _keep_freed_blocks() -> None:
    """Let glibc reuse freed temporaries instead of unmapping them: up to 2.7 times faster on a CPU.

    Its threshold adapts to the largest mapped block that was freed; this one is never touched.
    """
    torch.empty(2**25 - 2**20, dtype=torch.uint8)


_DEFAULT_DEGREE = 3  # padding for products that are no polynomial: twice the points


@final
class Discretisation:
    """A problem, split and compiled.

    Args:
        sources: An evolution problem, periodic along every space axis, with its inputs.
    """

    def __init__(self, sources: Sources) -> None:
        self.problem = problem = sources.problem
        self.split = split_linear(problem.pde)
        self.main = PointwiseProducts(problem, self.split, self.split.right)
        self.auxiliary = PointwiseProducts(problem, self.split, self.split.auxiliary)
        self.means = tuple(float(a.mean or 0.0) for a in problem.pde.auxiliaries)
        self.narrow = narrow_terms(problem)
        self.sources, self.start = sources, sources.start
        self.box = PeriodicGrid(problem.space, (2,) * len(problem.space), sources.device)

    @property
    def order_in_time(self) -> float:
        """Order to credit: 3.5, or 2 where a product holds second derivatives in all (stiff).

        What drives dt(u) by second derivatives of u turns waves at rates of first order.
        """
        places = [o for p in self.split.right.products for _, o, _ in p.places]
        outer = max((sum(o) for o in places), default=0)
        rates = (
            (sum(o) + self._lift(c) + outer) / (1 + self._time_orders_above(c))
            for c, o in self.main.unknowns
        )
        return 3.5 if max(rates, default=outer) <= 1 else 2.0

    def _time_orders_above(self, channel: int) -> int:
        """Time derivatives between a channel and every state that products drive."""
        driven = min(self.problem.pde.time_order[u] for u in self.problem.pde.unknowns) - 1
        return max(0, driven - self.split.channels[channel].time_order)

    def _lift(self, channel: int) -> int:
        """Derivatives of a state that a channel stands for: −2 for ψ where −Δψ = w."""
        row, split = channel - self.split.states, self.split.auxiliary
        if row < 0 or any(r == row for p in split.products for r, _, _ in p.places):
            return 0
        orders = {c: max(map(sum, p)) for (r, c), p in split.linear.items() if r == row}
        own = orders.pop(channel, 0)
        states = all(c < self.split.states for c in orders)
        return max(orders.values()) - own if orders and states else 0

    def initial(self, grid: PeriodicGrid, sources: Sources) -> Tensor:
        """Spectra of the initial state ``[B, states, *modes]``, zero at Nyquist."""
        w = grid.forward(self._initial_fields(grid, sources)) * grid.interior()
        if len(self.split.channels) > self.split.states:
            # The points take waves of as many periods as there are points for a mean, which an
            # auxiliary equation may not have. Random fields end at 64 waves, no multiple of 3.
            finer = grid.with_sizes([3 * n for n in grid.sizes])
            means = self._initial_fields(finer, sources).mean(grid.dims)
            w[(..., *(0,) * len(grid.sizes))] = means.to(w.dtype)
        return w

    def _initial_fields(self, grid: PeriodicGrid, sources: Sources) -> Tensor:
        """Values of the initial state at the points of a grid ``[B, states, *sizes]``."""
        fields = [
            sources.field(self.problem.initial[c.name][c.time_order], grid.axes())
            for c in self.split.channels[: self.split.states]
        ]
        return torch.stack(fields, 1)

    def stepper(
        self, level: SpectralLevel, sources: Sources, request: Request | None = None
    ) -> SpectralStepper:
        """Discretise at a level for the instances in ``sources``; check steps as requested."""
        grid = self.box.with_sizes(level.sizes)
        fine = grid.with_sizes(self._padded(level.sizes)) if level.padded else grid
        symbols = Symbols(self.split, self.means, grid, fine.points, sources)
        main, extra = (
            NonlinearTerm(term, symbols, fine) if system.products else None
            for term, system in (
                (self.main, self.split.right),
                (self.auxiliary, self.split.auxiliary),
            )
        )
        nonlinear = Nonlinear(symbols, main, extra)
        if main is not None:
            stabilise(nonlinear, self.initial(grid, sources), self.start)
        paths = None
        if self.narrow and request is not None:
            span = request.times[-1] - self.start
            paths = SpectralPaths(self.narrow, nonlinear, request.tolerance, span)
        return SpectralStepper(nonlinear, paths)

    def _padded(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        degrees = [_DEFAULT_DEGREE if d is None else d for d in self.main.degrees]
        factor = (max([1, *degrees]) + 1) / 2
        return tuple(2 * -(-round(n * factor) // 2) for n in sizes)
