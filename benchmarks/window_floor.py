"""What time windows and lattices leave to be won: their own error, with a perfect network.

    python benchmarks/window_floor.py [--only NAME …]

Within time windows the equations are trained on a lattice, and a state keeps some waves alone. Here
the equations are solved exactly on that lattice, by u ← u − R(u) from the state at the start of a
window, R the residual integrated over time, and windows are composed as a trained operator composes
them. What differs from the reference solution at the end of the time axis is a floor of the error
that training can reach there. The result is `results/window_floor.json`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, cast

import torch
from record import record
from torch import Tensor

from piop.domain import Coordinate
from piop.metrics import relative_l2
from piop.problem import Problem
from piop.problem.residual_form import decide_form
from piop.problem.time_windows import State, decide_windows, window_problem
from piop.reference import solve_reference
from piop.residual import Lattice
from piop.residual.lattice import grid_points
from piop.sampling import Draws, sample_inputs
from piop.sampling.stored_functions import sum_of_waves
from piop.training.loss.integral_form import integral_residual
from piop.training.state_waves import find_states

NAMES = (
    "allen_cahn",
    "burgers2d",
    "burgers2d_cvit",
    "burgers_fno",
    "burgers_galerkin",
    "cahn_hilliard",
    "kdv",
    "kuramoto_sivashinsky",
    "schroedinger",
)
SEED = 1000
ITERATIONS, CONVERGED = 200, 1e-7
"""Iterations of a window at most, and the change relative to the solution at which they end."""
DIVERGED = 1e-3
"""Change that is left, from which on there is no solution to compare."""
TOLERANCE = 1e-6
"""Of the reference solutions."""
POINTS = {1: 256, 2: 64}


def floor_of(name: str, count: int) -> dict[str, Any]:
    """Compose exact solutions on the lattice of a problem, and compare them with references."""
    problem = Problem.from_file(name)
    decision, form = decide_windows(problem), decide_form(problem)
    states = find_states(problem, decision.count, form, asked=False, most=decision.most)
    if not states.lattice:
        return {"windows": states.windows, "why": states.form or states.why}
    state, lattice = cast("State", states.state), Lattice.of(states.lattice)
    window = window_problem(problem, states.windows, state)
    residual = integral_residual(window, lattice, torch.zeros((), dtype=torch.float64))
    time = cast("Coordinate", window.time)
    functions = sample_inputs(problem, Draws(SEED, 1, torch.arange(count)))
    whole = cast("Coordinate", problem.time)
    shape = (POINTS[len(problem.space)],) * len(problem.space)
    solved = solve_reference(
        problem, functions, times=[whole.low, whole.high], shape=shape, tolerance=TOLERANCE
    )
    truth = torch.stack([solved.values[u] for u in problem.channels], -1)
    times = (time.low + time.length * lattice.nodes()).expand(count, -1)
    axes = [even(axis, n) for axis, n in zip(problem.space, lattice.points, strict=True)]
    queries = grid_points([times, *(axis.expand(count, -1) for axis in axes)])
    places = grid_points([axis[None] for axis in axes])
    known = residual.evaluate_inputs({}, queries)
    values, change = truth[:, 0], 0.0
    for _ in range(states.windows):
        shortest = min(state.waves, *((n - 1) // 2 for n in values.shape[1:-1]))
        kept = [sum_of_waves(v, problem.space, shortest) for v in values.unbind(-1)]
        start = torch.stack([wave(places) for wave in kept], -1)
        found, own = solve_window(residual, start, queries, known, lattice, time.length)
        change = max(change, own)
        values = found.unflatten(1, (lattice.times, *lattice.points))[:, -1]
        if not values.isfinite().all() or change > DIVERGED:
            return {"windows": states.windows, "why": "the iteration diverges"}
    ends = [even(axis, n) for axis, n in zip(problem.space, shape, strict=True)]
    at = grid_points([axis[None] for axis in ends])
    most = min(lattice.points) // 2 - 1
    final = [sum_of_waves(v, problem.space, most)(at) for v in values.unbind(-1)]
    errors = [
        relative_l2(own, true.flatten(1))
        for own, true in zip(final, truth[:, -1].unbind(-1), strict=True)
    ]
    return {
        "windows": states.windows,
        "lattice": list(states.lattice),
        "waves": state.waves,
        "floor": float(torch.stack(errors).mean()),
        "worst": float(torch.stack(errors).max()),
        "last_change": change,
    }


def solve_window(
    residual: Any,
    start: Tensor,
    queries: Tensor,
    known: Any,
    lattice: Lattice,
    length: float,
) -> tuple[Tensor, float]:
    """Solve the equations on the lattice; return ``[B, N, C]`` and the last relative change."""
    values, change = start.repeat(1, lattice.times, 1), float("inf")
    for _ in range(ITERATIONS):
        now = values
        step = length * residual(lambda _, now=now: now, queries, known).values
        values, change = now - step, float(step.norm() / now.norm())
        if change < CONVERGED or not change < 1 / CONVERGED:
            break
    return values, change


def even(axis: Coordinate, count: int) -> Tensor:
    """Return even places of a periodic axis ``[n]`` float64."""
    return axis.low + axis.length * torch.arange(count, dtype=torch.float64) / count


def main() -> None:
    """Parse the arguments, solve, write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--inputs", type=int, default=16)
    options = parser.parse_args()
    lines = ["| problem | windows | lattice | waves | floor | worst |", "|---|---|---|---|---|---|"]
    found: dict[str, Any] = {}
    for name in options.only:
        found[name] = row = floor_of(name, options.inputs)
        if "floor" in row:
            shape = " × ".join(map(str, row["lattice"]))
            lines.append(
                f"| `{name}` | {row['windows']} | {shape} | {row['waves']} | {row['floor']:.2g} | "
                f"{row['worst']:.2g} |"
            )
        print(name, row, flush=True)
    command = f"python benchmarks/window_floor.py {' '.join(sys.argv[1:])}".strip()
    record("window_floor", command, {"inputs": options.inputs, "held_out_seed": SEED,
           "floors": found, "markdown": "\n".join(lines)})  # fmt: skip
    print("\n".join(lines))


if __name__ == "__main__":
    main()
