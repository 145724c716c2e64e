"""Input functions and problems for the tests of the reference solver."""

from __future__ import annotations

import math

import torch

from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference.fourier.step_lengths import SpectralLevel
from piop.reference.fourier.time_stepping import Discretisation
from piop.reference.input_values import Sources


class Waves(InputFunction):
    """mean + Σ A sin(2π l·(x − low)/L + φ), sharing no code with the samplers."""

    batch = dimension = 0  # of an instance: as its arrays say

    def __init__(self, amplitudes, wavevectors, phases, lows, lengths, mean=0.0):
        as_tensor = lambda v: torch.as_tensor(v, dtype=torch.float64)  # noqa: E731
        self.amplitudes, self.phases = as_tensor(amplitudes), as_tensor(phases)  # [B, K]
        self.wavevectors = as_tensor(wavevectors)  # [B, K, d]
        self.lows, self.lengths, self.mean = as_tensor(lows), as_tensor(lengths), mean
        self.batch, self.dimension = self.amplitudes.shape[0], self.wavevectors.shape[-1]

    def derivative(self, points, order):
        k = 2 * math.pi * self.wavevectors / self.lengths  # [B, K, d]
        angle = ((points - self.lows)[:, :, None] * k[:, None]).sum(-1) + self.phases[:, None]
        scale = self.amplitudes * (k ** torch.tensor(order)).prod(-1)
        value = (scale[:, None] * torch.sin(angle + sum(order) * math.pi / 2)).sum(-1)
        return value + (self.mean if not any(order) else 0.0)

    def take(self, index):
        parts = self.amplitudes[index], self.wavevectors[index], self.phases[index]
        return Waves(*parts, self.lows, self.lengths, self.mean)

    def to(self, device=None, dtype=None):
        return self


class Scalars(InputFunction):
    """One number per instance."""

    batch = dimension = 0

    def __init__(self, values):
        self.values = torch.as_tensor(values, dtype=torch.float64)
        self.batch = len(self.values)

    def derivative(self, points, order):
        return self.values[:, None].expand(-1, points.shape[1])

    def take(self, index):
        return Scalars(self.values[index])

    def to(self, device=None, dtype=None):
        return self


class Formula(InputFunction):
    """A function of one coordinate given by its formula alone."""

    batch, dimension = 1, 1

    def __init__(self, formula):
        self.formula = formula

    def derivative(self, points, order):
        with torch.enable_grad():
            x = points[..., 0].detach().requires_grad_()
            values = self.formula(x)
            for _ in range(order[0]):
                (values,) = torch.autograd.grad(values.sum(), x, create_graph=True)
        return values.detach()

    def take(self, index):
        return self

    def to(self, device=None, dtype=None):
        return self


def random_waves(batch, space, terms=4, amplitude=0.5, wavenumber=3, seed=0, mean=0.0):
    """Waves with random amplitudes, wave vectors and phases on ``space``: [(low, high), …]."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, terms)
    draw = lambda *s: torch.rand(*s, generator=generator, dtype=torch.float64)  # noqa: E731
    vectors = torch.randint(1, wavenumber + 1, (*shape, len(space)), generator=generator).double()
    if len(space) > 1:
        vectors = vectors * torch.where(draw(*vectors.shape) < 0.5, -1, 1)
    lows, lengths = [a for a, _ in space], [b - a for a, b in space]
    return Waves(
        amplitude * (2 * draw(*shape) - 1), vectors, 2 * math.pi * draw(*shape), lows, lengths, mean
    )


def periodic(equations, unknowns=("u",), space=None, time=1.0, **words):
    """A periodic evolution problem, started from ``u0`` if not told otherwise."""
    space = space or {"x": [0, 1]}
    inputs = {f"{u}0": {"of": list(space), "law": "fourier_series", "terms": 3} for u in unknowns}
    inputs = {n: {**v, "amplitude": [-0.5, 0.5], "wavenumber": [1, 2]} for n, v in inputs.items()}
    inputs |= words.pop("inputs", {})
    initial = words.pop("initial", {u: f"{u}0" for u in unknowns})
    used = str(initial)
    own = {f"{u}0" for u in unknowns}
    inputs = {n: v for n, v in inputs.items() if n in used or n not in own}
    return Problem(
        name="case",
        time={"t": [0, time]},
        space=space,
        unknowns=list(unknowns),
        inputs=inputs,
        equations=[equations] if isinstance(equations, str) else list(equations),
        initial=initial,
        boundary=dict.fromkeys(space, "periodic"),
        save={"t": 11, **dict.fromkeys(space, 64)},
        **words,
    )


def relative(found, exact):
    """Largest over save times of ‖error‖₂ / root mean square of ‖exact‖₂, of ``[T, ...]``."""
    found, exact = torch.as_tensor(found).flatten(1), torch.as_tensor(exact).flatten(1)
    norm = exact.square().sum(1).mean().sqrt()
    return float((found - exact).norm(dim=1).max() / norm)


def evolve(problem, functions, sizes, steps, padded=False, saves=1):
    """Final spectra at a fixed resolution and step: ``([B, T, states, *modes], grid)``."""
    discretisation = Discretisation(Sources(problem, functions, torch.device("cpu")))
    low, high = problem.time.low, problem.time.high
    level = SpectralLevel(tuple(sizes), (high - low) / saves, steps // saves, padded)
    with torch.no_grad():
        stepper = discretisation.stepper(level, discretisation.sources)
        w = discretisation.initial(stepper.grid, discretisation.sources)
        times = [low + (high - low) * (i + 1) / saves for i in range(saves)]
        return stepper.run(w, low, times, level).spectra, stepper.grid


def orders(problem, functions, sizes, steps, finest):
    """Observed orders between runs of ``steps`` steps, against one of ``finest`` steps."""
    exact, _ = evolve(problem, functions, sizes, finest)
    errors = [float((evolve(problem, functions, sizes, n)[0] - exact).abs().max()) for n in steps]
    return [
        math.log(a / b) / math.log(m / n)
        for a, b, n, m in zip(errors, errors[1:], steps, steps[1:], strict=False)
    ], errors
