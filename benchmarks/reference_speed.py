"""Speed of the reference solver beside exponax: 64 Burgers trajectories, ν = 0.01, 100 saves.

    python benchmarks/reference_speed.py [--threads 1] [--rounds 5] [--json]

Both run in this process, in turn, at the same settings: 1536 modes, 24 steps between saves, ETDRK4,
no dealiasing (the tail is resolved), flux form. exponax is compiled, mapped over the batch and
warmed up before any clock starts. It runs twice: in its documented use, which steps values at the
points (``ratio``), and on spectra through ``step_fourier``, which saves two transforms in ten
(``ratio_fourier``) and is how piop steps. Needs ``pip install exponax`` (JAX), which piop does not.

The error of both is taken against a run with 2048 modes and 40 steps. Wall times of other programs'
making show in the spread: medians over the rounds are compared, and CPU time stands beside.
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

BATCH, SAVES, HORIZON, VISCOSITY = 64, 100, 2.475, 0.01
MODES, STEPS = 1536, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    # Both libraries size their thread pools by the processors they may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    sys.path.insert(0, str(Path(__file__).parents[1]))
    figures = measure(options.threads, options.rounds)
    if options.record:
        from benchmarks.record import record

        command = f"python benchmarks/reference_speed.py --threads {options.threads} --record"
        record("reference_speed", command, figures)
    if options.json:
        print(json.dumps(figures))
        return
    for name in ("ratio", "ratio_fourier"):
        print(f"{name} {figures[name]:.3f} (wall), {figures[name + '_cpu']:.3f} (CPU)")
    for side in ("piop", "exponax", "exponax_fourier", "piop_self_verifying"):
        print(f"{side:20s} {figures[side]}")


def measure(threads: int, rounds: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(threads)
    from piop.problem import Problem
    from piop.reference import solve_reference
    from piop.sampling.laws import sample_inputs
    from piop.sampling.random import Draws

    problem = Problem.from_file("burgers")
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(BATCH)))
    ours = fixed(problem, functions, MODES, STEPS)
    solvers: dict[str, Callable[[], torch.Tensor]] = {
        "piop": ours,
        "exponax": peer(functions, fourier=False),
        "exponax_fourier": peer(functions, fourier=True),
    }
    kept = {name: run()[:, :, ::6].clone() for name, run in solvers.items()}  # warm-up, compilation
    truth = fixed(problem, functions, 2048, 40)()[:, :, ::8]
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in solvers}
    for _ in range(rounds):
        for name, run in solvers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = time.perf_counter(), time.process_time()
    solution = solve_reference(problem, functions)
    ladder = time.perf_counter() - wall, time.process_time() - cpu
    kept["piop_self_verifying"] = solution.values["u"]
    seconds["piop_self_verifying"] = [ladder]
    medians = {n: [statistics.median(c) for c in zip(*s, strict=True)] for n, s in seconds.items()}
    figures: dict[str, Any] = {
        name: {
            "seconds_wall": round(medians[name][0], 3),
            "seconds_cpu": round(medians[name][1], 3),
            "rounds_wall": [round(s[0], 3) for s in seconds[name]],
            "largest_error": largest_error(kept[name], truth),
        }
        for name in seconds
    }
    for i, clock in enumerate(("", "_cpu")):
        for suffix in ("", "_fourier"):
            ratio = medians["piop"][i] / medians["exponax" + suffix][i]
            figures["ratio" + suffix + clock] = round(ratio, 3)
    own = medians["piop_self_verifying"]
    figures["ratio_self_verifying_cpu"] = round(own[1] / medians["exponax"][1], 3)
    figures["settings"] = {
        "batch": BATCH, "saves": SAVES, "modes": MODES, "steps_per_save": STEPS, "threads": threads,
        "horizon": HORIZON, "viscosity": VISCOSITY, "dealiasing": "none", "form": "flux",
    }  # fmt: skip
    figures["load_average"] = list(os.getloadavg())
    figures["note"] = (
        "A shared machine with other jobs running: wall times are noisy, CPU times less so."
    )
    import exponax
    import jax

    figures["versions"] = {
        "exponax": exponax.__version__,
        "jax": jax.__version__,
        "torch": torch.__version__,
    }
    return figures


def largest_error(values: Any, truth: Any) -> float:
    """Largest over trajectories of the relative L2 error over space and time."""
    gap = (values - truth).flatten(1).norm(dim=1)
    return float((gap / truth.flatten(1).norm(dim=1)).max())


def fixed(problem: Any, functions: Any, modes: int, steps: int) -> Callable[[], Any]:
    """The reference solver at one resolution and step."""
    import torch

    from piop.reference.discretise import Discretisation
    from piop.reference.evolve import Level

    times = torch.linspace(0, HORIZON, SAVES, dtype=torch.float64).tolist()
    discretisation = Discretisation(problem, functions, torch.device("cpu"))
    level = Level((modes,), times[1], steps, padded=False)
    with torch.no_grad():
        marcher = discretisation.marcher(level, discretisation.sources)
        start = discretisation.initial(marcher.grid, discretisation.sources)

    def run() -> Any:
        with torch.no_grad():
            trajectory = marcher.run(start, 0.0, times, level)
            return marcher.grid.backward(trajectory.spectra[:, :, 0])

    return run


def peer(functions: Any, fourier: bool) -> Callable[[], Any]:
    """Run exponax at the same settings, stepping points (its documented use) or spectra."""
    import math

    import jax
    import numpy as np
    import torch

    jax.config.update("jax_enable_x64", True)
    import exponax
    import jax.numpy as jnp

    step = HORIZON / (SAVES - 1) / STEPS
    stepper = exponax.stepper.Burgers(
        1, 2 * math.pi, MODES, step, diffusivity=VISCOSITY, order=4, dealiasing_fraction=1.0,
        conservative=True, single_channel=True,
    )  # fmt: skip
    step_once = stepper.step_fourier if fourier else stepper
    rollout = exponax.rollout(exponax.repeat(step_once, STEPS), SAVES - 1, include_init=True)

    def one(start: Any) -> Any:
        if not fourier:
            return rollout(start)[:, 0]
        spectra = rollout(jnp.fft.rfft(start))
        return jnp.fft.irfft(spectra, n=MODES)[:, 0]

    solve = jax.jit(jax.vmap(one))
    x = torch.arange(MODES, dtype=torch.float64) * (2 * math.pi / MODES)
    start = jnp.asarray(functions["u0"].on_grid([x]).numpy())[:, None]

    def run() -> Any:
        return torch.from_numpy(np.asarray(solve(start).block_until_ready()).copy())

    return run


if __name__ == "__main__":
    main()
