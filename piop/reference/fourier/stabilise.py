"""Move the stiff part of variable coefficients into the linear symbol, and bound the step.

For a(x)·u_xx the largest a goes into L and (a − max a)·u_xx stays in N: implicit enough to be
stable, still exact. The same holds for any product F whose slope ∂F/∂(∂^b u), at the initial state
by automatic differentiation, multiplies derivatives of total order two or more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from piop.reference.fourier.nonlinear import Nonlinear
from piop.reference.fourier.transforms import Stage

_LIMIT = 2.0  # below 2.8, where RK4 leaves the imaginary axis: slopes grow after the start


def slopes(
    stage: Stage, channels: list[Tensor], w: Tensor, t: float
) -> dict[tuple[int, int], Tensor]:
    """∂F_p/∂(argument i) at the points, for each pair that is not zero: ``[B, *fine.sizes]``."""
    atoms = [a.detach().requires_grad_() for a in stage.atoms(channels, w)]
    out: dict[tuple[int, int], Tensor] = {}
    if not atoms:
        return out
    with torch.enable_grad():
        products = stage.products(atoms, t, len(w))
        for p in range(products.shape[1]):
            total = products[:, p].sum()
            if not total.requires_grad:
                continue
            grads = torch.autograd.grad(total, atoms, allow_unused=True, retain_graph=True)
            out |= {(p, i): g for i, g in enumerate(grads) if g is not None and bool(g.any())}
    return out


def stabilise(nonlinear: Nonlinear, stage: Stage, w: Tensor, t: float) -> None:
    """Shift products and symbols in place (both belong to one discretisation)."""
    symbols, split = nonlinear.symbols, nonlinear.split
    for (p, i), slope in slopes(stage, nonlinear.channels(w, t), w, t).items():
        channel, inner = stage.pointwise.unknowns[i]
        places = split.right.products[p].places
        orders = {sum(o) + sum(inner) for _, o, _ in places}
        if min(orders) < 2 or any(row != channel for row, _, _ in places):
            continue
        flat = slope.flatten(1)
        high, low = flat.amax(1), flat.amin(1)
        if next(iter(orders)) % 2:
            value = (high + low) / 2  # dispersion: centre the remainder
        else:
            value = torch.where(high.abs() >= low.abs(), high, low)
        value = value.reshape(-1, *(1,) * len(stage.grid.sizes))
        inner_symbol = stage.grid.derivative(inner)
        moved = symbols.places[channel, p] * (symbols.points * value) * inner_symbol
        if bool((moved.real > 1e-12 * moved.abs().amax()).any()):
            continue  # it would grow: leave it to N
        stage.shifts.append((p, i, value))
        key = (channel, channel)
        symbols.linear[key] = symbols.linear[key] + moved if key in symbols.linear else moved


def longest_step(nonlinear: Nonlinear, stage: Stage, w: Tensor, t: float) -> Tensor:
    """Step ``[B]`` that keeps the explicit terms stable, as far as the initial state tells (time).

    A mode that L damps faster than N can drive it needs no bound.
    """
    grid, points = stage.grid, nonlinear.symbols.points
    rate = torch.zeros((len(w), *grid.modes), dtype=torch.float64, device=w.device)
    for (p, i), slope in slopes(stage, nonlinear.channels(w, t), w, t).items():
        channel, inner = stage.pointwise.unknowns[i]
        largest = slope.flatten(1).abs().amax(1).reshape(-1, *(1,) * len(grid.sizes))
        inner_size = grid.derivative(inner).abs()
        sources = _sources(nonlinear, channel)
        for (_, q), place in nonlinear.symbols.places.items():
            if q == p:
                for factor in sources:
                    rate = rate + largest * inner_size * place.abs() * (points * factor)
    damping = torch.zeros_like(rate)
    if all(r == c for r, c in nonlinear.symbols.linear) and nonlinear.symbols.linear:
        parts = [-s.real for s in nonlinear.symbols.linear.values()]
        count = nonlinear.split.states
        if len(parts) == count:
            damping = torch.stack(torch.broadcast_tensors(*parts)).amin(0).clamp_min(0)
    net = (rate - damping).flatten(1).amax(1)
    return _LIMIT / net.clamp_min(1e-300)


def _sources(nonlinear: Nonlinear, channel: int) -> list[Tensor | float]:
    """Size of the symbols that make a channel from the states."""
    states = nonlinear.split.states
    if channel < states:
        return [1.0]
    table = nonlinear.symbols.auxiliary
    return [
        s.abs() for (row, source), s in table.items() if row == channel - states and source < states
    ]
