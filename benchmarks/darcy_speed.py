"""Speed of the elliptic solver beside SciPy: Darcy flow with jumps on 421 × 421 cells.

    python benchmarks/darcy_speed.py [--threads 1] [--samples 8] [--rounds 3] [--record]

Both solve the same systems of `darcy_fno` (permeabilities 12 and 3), assembled beforehand: SciPy
one after the other with ``spsolve``, piop together, its coarser systems made within the clock. Per
sample; medians over rounds in turn; and how far the solutions are apart. Beside it the whole of
``solve_reference`` on the 421 × 421 nodes of the spec, which also draws the permeability at all
points and solves on two coarser grids to know its error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CELLS, TOLERANCE = 421, 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    sys.path.insert(0, str(Path(__file__).parents[1]))
    figures = measure(options.threads, options.samples, options.rounds)
    if options.record:
        from benchmarks.record import record

        command = f"python benchmarks/darcy_speed.py {' '.join(sys.argv[1:])}"
        record("darcy_speed_cpu", command, figures)
    print(json.dumps(figures, indent=2))


def measure(threads: int, samples: int, rounds: int) -> dict[str, Any]:
    import numpy as np
    import scipy
    import torch
    from scipy.sparse.linalg import spsolve

    torch.set_num_threads(threads)
    from piop.forms.linear_forms import divergence_form
    from piop.problem import Problem
    from piop.reference import solve_reference
    from piop.reference.elliptic.assemble import CellSystem
    from piop.reference.elliptic.linear_solve import assemble, solve_cells
    from piop.reference.input_values import Sources
    from piop.sampling import Draws, sample_inputs

    problem = Problem.from_file("darcy_fno")
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(samples)))
    sources = Sources(problem, functions, torch.device("cpu"))
    numbers = list(range(samples))
    system = CellSystem(divergence_form(problem.pde), sources, numbers, (CELLS, CELLS))
    systems = [(assemble(system.operator, i), system.right[i].flatten().numpy())
               for i in numbers]  # fmt: skip

    def direct() -> Any:
        return np.stack([spsolve(matrix, right) for matrix, right in systems])

    def ours() -> Any:
        with torch.no_grad():
            return solve_cells(system, TOLERANCE, None, numbers).flatten(1).numpy()

    found: dict[str, Any] = {}
    seconds: dict[str, list[tuple[float, float]]] = {}
    runs: dict[str, Callable[[], Any]] = {"piop": ours, "spsolve": direct}
    for _ in range(rounds):
        for name, run in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            found[name] = run()
            spent = time.perf_counter() - wall, time.process_time() - cpu
            seconds.setdefault(name, []).append(spent)
    wall, cpu = time.perf_counter(), time.process_time()
    solution = solve_reference(problem, functions, tolerance=1e-2)
    whole = time.perf_counter() - wall, time.process_time() - cpu
    gap = found["piop"] - found["spsolve"]
    apart = np.linalg.norm(gap, axis=1) / np.linalg.norm(found["spsolve"], axis=1)
    each = {
        name: [statistics.median(c) / samples for c in zip(*spent, strict=True)]
        for name, spent in seconds.items()
    }
    return {
        "ratio": round(each["piop"][0] / each["spsolve"][0], 4),
        "ratio_cpu": round(each["piop"][1] / each["spsolve"][1], 4),
        "seconds_per_sample_wall": {n: round(s[0], 4) for n, s in each.items()},
        "seconds_per_sample_cpu": {n: round(s[1], 4) for n, s in each.items()},
        "apart": float(apart.max()),
        "solve_reference": {
            "tolerance": 1e-2,
            "seconds_per_sample_wall": round(whole[0] / samples, 4),
            "seconds_per_sample_cpu": round(whole[1] / samples, 4),
            "cells": solution.modes[:, 0].tolist(),
            "largest_error_estimate": float(solution.error_estimate.max()),
        },
        "settings": {
            "cells": CELLS, "samples": samples, "rounds": rounds, "threads": threads,
            "tolerance": TOLERANCE,
        },
        "load_average": list(os.getloadavg()),
        "note": "A shared machine with other jobs running: wall times are noisy, CPU times less.",
        "versions": {"scipy": scipy.__version__, "torch": torch.__version__},
    }  # fmt: skip


if __name__ == "__main__":
    main()
