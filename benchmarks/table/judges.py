"""The held-out inputs that all seeds and backbones of a problem are judged on, solved once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from piop.datasets import Queries
from piop.fields import FunctionSamples, grid_axis
from piop.problem import Problem
from piop.reference import solve_reference
from piop.run.drawn_inputs import DrawnInputs
from piop.run.evaluation import errors_of
from piop.run.held_out import HeldOut
from piop.sampling import Draws, place_sensors, reconstruct
from piop.sampling.random import HELD_OUT

from .entries import CPU_LIMITS, Entry

SEED = 1000
"""Of the held-out inputs, whose draws have a key of their own: none is ever trained on."""
SCHEME = 1
"""Of their draws, so that rows are comparable with those that were recorded before."""
NEURALOP = "neuraloperator's data, 16 on a grid"
APART, ROWS = 0.06, 17
"""Rows of neuraloperator's trajectories; ``tests/reference/test_data.py`` tells how it is known."""


@dataclass(frozen=True)
class Judge:
    """Inputs seen through certain sensors, and their solutions.

    Attributes:
        name: What the inputs are seen through.
        held_out: The inputs and solutions.
        floor: Relative L2 of each sample ``[B]`` when the reference itself starts from the input as
            reconstructed from these sensors: what the best operator of this kind would leave.
    """

    name: str
    held_out: HeldOut
    floor: Tensor


def floor_of(problem: Problem, held_out: HeldOut) -> Tensor:
    """Solve from the reconstructed inputs and compare: ``[B]``."""
    axes = held_out.queries.axes or {}
    functions = {
        item.name: reconstruct(problem, item, held_out.inputs[item.name])
        for item in problem.visible_inputs
    }
    solution = solve_reference(
        problem,
        functions,
        times=axes[problem.coordinates[0].name],
        shape=tuple(len(axes[c.name]) for c in problem.space),
    )
    return errors_of(solution.values, {n: held_out.truth[n] for n in problem.unknowns})


def see(problem: Problem, held_out: HeldOut, count: int | tuple[int, ...], place: str) -> HeldOut:
    """See the same inputs through other sensors."""
    (item,) = problem.visible_inputs
    shape = (count,) if isinstance(count, int) else count
    draws = Draws.of(HELD_OUT, SEED, range(len(held_out.accepted)), SCHEME)
    points = place_sensors(problem, replace(item, sensor_shape=shape, place=place), draws)
    values = held_out.functions[item.name](points)[..., None]
    return replace(held_out, inputs={item.name: FunctionSamples(points, values)})


def law_judges(problem: Problem, entry: Entry, samples: int, full: bool) -> list[Judge]:
    """Draw the test inputs of a problem's law and solve them."""
    counts = list(entry.grid.values())
    if not full:
        times, points = CPU_LIMITS[len(problem.space)]
        counts = [min(counts[0], times), *(min(n, points) for n in counts[1:])]
    axes = {
        c.name: grid_axis(c.low, c.high, n, c.periodic)
        for c, n in zip(problem.coordinates, counts, strict=True)
    }
    queries = Queries(axes=axes)
    held_out = DrawnInputs(problem, samples, SEED, queries, scheme=SCHEME).held_out()
    judges = []
    for name, sensors in entry.views.items():
        seen = held_out if sensors is None else see(problem, held_out, *sensors)
        judges.append(Judge(name, seen, floor_of(problem, seen)))
    return judges


def neuralop_judge(problem: Problem, file: Path, samples: int) -> Judge:
    """Take neuraloperator's trajectories: their initial data, their solutions, their grid.

    Their initial data follow the law of ``burgers_wang``: the variances of the harmonics 1 … 6 over
    800 samples are those of 625² (−Δ + 25)^(−4) to within 5 %, which is sampling error, and no
    other pair of exponent and shift in the literature fits (``tests/sampling/test_problems.py``).
    """
    stored = torch.load(file, weights_only=True)
    start, rows = stored["x"][:samples].double(), stored["y"][:samples].double()
    x = torch.arange(start.shape[1], dtype=torch.float64) / start.shape[1]
    queries = Queries(axes={"t": APART * torch.arange(ROWS, dtype=torch.float64), "x": x})
    points = x[None, :, None].expand(len(start), -1, -1)
    accepted = torch.ones(len(start), dtype=torch.bool)
    inputs = {"u0": FunctionSamples(points, start[..., None])}
    held_out = HeldOut({}, inputs, queries, {"u": rows}, None, accepted)
    return Judge(NEURALOP, held_out, floor_of(problem, held_out))


def cached(path: Path, key: Mapping[str, Any], make: Any) -> list[Judge]:
    """Read judges from a folder, or make them and keep them there.

    Args:
        path: The folder.
        key: All that the judges depend on.
        make: Called without arguments when they are not there.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    file = path / f"judges-{digest}.pt"
    if file.exists():
        return [_unpack(stored) for stored in torch.load(file, weights_only=True)]
    judges = make()
    path.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".tmp")
    torch.save([_pack(judge) for judge in judges], part)
    part.replace(file)
    return judges


def _pack(judge: Judge) -> dict[str, Any]:
    held = judge.held_out
    return {
        "name": judge.name,
        "floor": judge.floor,
        "inputs": {name: (s.points, s.values) for name, s in held.inputs.items()},
        "axes": dict(held.queries.axes or {}),
        "truth": dict(held.truth),
        "error_estimate": held.error_estimate,
        "accepted": held.accepted,
    }


def _unpack(stored: Mapping[str, Any]) -> Judge:
    inputs = {name: FunctionSamples(*pair) for name, pair in stored["inputs"].items()}
    held = HeldOut(
        {},
        inputs,
        Queries(axes=stored["axes"]),
        stored["truth"],
        stored["error_estimate"],
        stored["accepted"],
    )
    return Judge(stored["name"], held, stored["floor"])
