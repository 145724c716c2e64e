"""More accurate answers at prediction time: what corrections bring, and what they cost.

    python benchmarks/refinement.py [--only NAME …] [--time 60s] [--threads N]

Each problem is trained once with the default recipe, uncompiled. Fresh inputs are answered by the
operator, corrected, and solved by the reference solver asked for the error of the corrected answers
(or of the operator where there are none):

- `newton`: one step of Newton's method on a lattice, which is `piop predict --refine` (64 inputs);
- `last_layer`: the weights of the network's last layer fitted to the residual of one input at 1024
  points, one step of Gauss–Newton (8 inputs);
- `lbfgs`: 50 iterations of L-BFGS on all weights for one input, on the same residual (4 inputs);
- `start`: seconds of Newton's method for a nonlinear steady problem from zero and from the operator
  (8 inputs; `nonlinear_poisson` alone).

Mean relative L2 errors, largest of all unknowns, and seconds an answer. A problem that is finished
is kept. The result is `results/refinement.json`.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from record import RESULTS, environment, record
from torch import Tensor

from piop.datasets import Queries
from piop.metrics import relative_l2
from piop.problem import Problem
from piop.reference.chebyshev import solve as chebyshev
from piop.reference.chebyshev.steady import solve_steady
from piop.reference.solve import solve_reference
from piop.run import Run, fit
from piop.run.error_bounds.linearised_error import LinearisedError, choose_lattice
from piop.run.evaluation import nonzero_solutions, residual_at_points
from piop.run.held_out import HeldOut
from piop.run.prediction import predict_values
from piop.run.worth import measure_worth
from piop.sampling import Draws, collocation
from piop.training.batches.function_sources import interpolate_inputs
from piop.training.build import residual_of_model

NONLINEAR_POISSON = """
piop: 1
name: nonlinear_poisson
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  f: {of: [x, y], law: gaussian_random_field, matern: {smoothness: 3.5, length: 0.3, variance: 400}}
equations: ["-dxx(u) - dyy(u) + 20*u**3 = f"]
boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}}
sensors: {f: {count: [24, 24], place: grid}}
save: {x: 33, y: 33}
"""
PROBLEMS = (
    "advection_diffusion",
    "fisher_kpp",
    "diffusion_reaction",
    "allen_cahn",
    "schroedinger",
    "kdv",
    "burgers",
    "poisson",
    "darcy_smooth",
    "nonlinear_poisson",
)
POINTS = 1024


def errors_of(problem: Problem, held_out: HeldOut, values: Tensor) -> Tensor:
    """Return the largest relative L2 error of all unknowns of predictions ``[B, N, C]``."""
    errors = [
        relative_l2(values[..., i].reshape(held_out.truth[name].shape), held_out.truth[name])
        for i, name in enumerate(problem.channels)
        if name in held_out.truth
    ]
    return torch.stack(errors).amax(0)


def by_newton(run: Run, held_out: HeldOut) -> dict[str, Any] | None:
    """Correct all answers by one step of Newton's method."""
    problem, model = run.solved, run.model
    values = predict_values(problem, model, held_out.inputs, held_out.queries)
    error = float(errors_of(problem, held_out, values).mean())
    lattice = choose_lattice(problem, model, run.config, error, held_out)
    if not lattice:
        return None
    linearised = LinearisedError(problem, model, lattice)
    linearised(held_out.inputs)  # what is prepared once is not counted
    begun = time.perf_counter()
    found = linearised(held_out.inputs)
    values = values - linearised.interpolate(found.errors, held_out.queries)
    seconds = time.perf_counter() - begun
    errors = errors_of(problem, held_out, values)
    return {
        "lattice": list(lattice),
        "before": error,
        "after": float(errors.mean()),
        "worst": float(errors.max()),
        "seconds": seconds / len(errors),
    }


def residual_of_one(run: Run, held_out: HeldOut) -> Callable[[], Tensor]:
    """Return the residual of one input, in units of the equations' scales: ``[points · E]``."""
    problem, model = run.solved, run.model
    residual = residual_of_model(problem, model, run.config)
    like = model.operator.scale
    points = collocation(problem, Draws(5, 0, torch.arange(1)), POINTS).to(like)
    at = residual.place(lambda: points)
    seen = {name: s.to(like) for name, s in held_out.inputs.items()}
    functions = interpolate_inputs(problem, seen)
    evaluate = residual_at_points(model, residual, functions, seen)
    scale = like.new_tensor(run.statistics.equation_scale)
    return lambda: (evaluate(at) / scale).flatten()


def one_by_one(
    run: Run, held_out: HeldOut, count: int, improve: Callable[[Run, HeldOut], None]
) -> dict[str, Any]:
    """Improve the network for each of some inputs alone, and answer that input."""
    problem, kept = run.solved, copy.deepcopy(run.model.operator.state_dict())
    before, after, seconds = [], [], 0.0
    for row in torch.arange(count).split(1):
        one = held_out.take(row)

        def error(one: HeldOut = one) -> float:
            found = predict_values(problem, run.model, one.inputs, one.queries)
            return float(errors_of(problem, one, found))

        before.append(error())
        begun = time.perf_counter()
        improve(run, one)
        seconds += time.perf_counter() - begun
        after.append(error())
        run.model.operator.load_state_dict(kept)
    return {
        "before": sum(before) / count,
        "after": sum(after) / count,
        "worst": max(after),
        "worse": sum(a > b for a, b in zip(after, before, strict=True)),
        "seconds": seconds / count,
    }


def fit_last_layer(run: Run, one: HeldOut) -> None:
    """Take one step of Gauss–Newton in the weights of the last layer."""
    layer = run.model.operator.get_submodule("backbone.decoder.2")
    assert isinstance(layer, torch.nn.Linear)
    residual, weight = residual_of_one(run, one), layer.weight
    with torch.no_grad():
        now, columns, start = residual().double(), [], weight.clone()
        for index in range(weight.numel()):  # linear in the weights, but for nonlinear equations
            step = 1e-2 * float(start.abs().mean())
            weight.view(-1)[index] += step
            columns.append((residual().double() - now) / step)
            weight.copy_(start)
        jacobian = torch.stack(columns, -1)
        damping = 1e-6 * jacobian.square().sum() / weight.numel()
        normal = jacobian.T @ jacobian + damping * torch.eye(weight.numel()).double()
        change = torch.linalg.solve(normal, jacobian.T @ now)
        weight.sub_(change.to(weight).view_as(weight))


def run_lbfgs(run: Run, one: HeldOut) -> None:
    """Take 50 iterations of L-BFGS in all weights."""
    residual = residual_of_one(run, one)
    parameters = [p for p in run.model.operator.parameters() if p.requires_grad]
    optimiser = torch.optim.LBFGS(parameters, max_iter=50, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        found = residual().square().mean()
        found.backward()
        return found

    optimiser.step(loss)  # pyright: ignore[reportArgumentType]


def from_the_operator(run: Run, held_out: HeldOut, count: int = 8) -> dict[str, Any]:
    """Time Newton's method from zero and from the operator, on all grids of the reference."""
    problem, seconds = run.solved, {"zero": 0.0, "operator": 0.0}
    before = chebyshev.solve_steady
    for row in torch.arange(count).split(1):
        one = held_out.take(row)

        def timed(system: Any, guess: Tensor, one: HeldOut = one) -> Any:
            axes = [axis.flatten() for axis in system.mesh.axes()]
            points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
            queries = Queries(points=points[None].double())
            operator = predict_values(problem, run.model, one.inputs, queries)
            starts = {
                "zero": torch.zeros_like(guess),
                "operator": operator.movedim(-1, 1).reshape(guess.shape).to(guess),
            }
            for name, start in starts.items():
                begun = time.perf_counter()
                solve_steady(system, start)
                seconds[name] += time.perf_counter() - begun
            return solve_steady(system, guess)

        chebyshev.solve_steady = timed
        try:
            solve_reference(problem, one.functions, tolerance=1e-4)
        finally:
            chebyshev.solve_steady = before
    return {name: found / count for name, found in seconds.items()}


def main() -> None:
    """Parse the arguments, measure each problem, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path = RESULTS / "refinement.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    for name in options.only:
        if name in cells:
            continue
        own = name == "nonlinear_poisson"
        problem = Problem.from_yaml(NONLINEAR_POISSON) if own else Problem.from_file(name)
        with tempfile.TemporaryDirectory() as folder:
            out, more = Path(folder) / "run", {"samples": 0, "calibrate": 0, "compile": False}
            run = fit(problem, time=options.time, out=out, threads=options.threads, **more)
            source = run.sources.for_calibration(run.solved, 64, 1000, 0)
            held_out = source.held_out()
            kept = nonzero_solutions(run.solved, held_out).nonzero()[:, 0]
            held_out = held_out.take(kept)
            begun = time.perf_counter()
            values = predict_values(run.solved, run.model, held_out.inputs, held_out.queries)
            seconds = time.perf_counter() - begun
            error = float(errors_of(run.solved, held_out, values).mean())
            cell: dict[str, Any] = {"error": error, "seconds": seconds / len(kept)}
            cell["newton"] = by_newton(run, held_out)
            target = cell["newton"]["after"] if cell["newton"] else error
            cell["solver"] = measure_worth(run.solved, run.model, held_out, target, 1.0)
            soft_walls = bool(run.statistics.lattice) and not problem.pde.periodic
            if not run.model.operator.gridded and not soft_walls:  # the residual is not all
                cell["last_layer"] = one_by_one(run, held_out, 8, fit_last_layer)
                cell["lbfgs"] = one_by_one(run, held_out, 4, run_lbfgs)
            if own:
                cell["start"] = from_the_operator(run, held_out)
            cells[name] = cell | {"commit": environment()["commit"], "trained": options.time}
        print(name, json.dumps(cells[name]), flush=True)
        command = f"python benchmarks/refinement.py {' '.join(sys.argv[1:])}".strip()
        record("refinement", command, {"cells": cells})


if __name__ == "__main__":
    main()
