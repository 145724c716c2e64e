"""Speed of the reference solver beside exponax, both at the same modes, step and scheme.

    python benchmarks/reference_speed.py burgers [--threads 1] [--rounds 5] [--json] [--record]
    python benchmarks/reference_speed.py navier_stokes

``burgers``: 64 trajectories, ν = 0.01, 100 saves, 1536 modes, 24 steps between saves.
``navier_stokes``: 16 trajectories of the vorticity on 64 × 64 points, ν = 1e-3, T = 10, a save at
every unit of time, 10 steps between saves; without the force of the spec, which exponax's stepper
has not, and from smoother data (α = 4.5), so that 64 modes hold the solution. exponax counts its
stream function with the other sign.

Both run in this process, in turn, by ETDRK4, without dealiasing (the tail is resolved). exponax is
compiled, mapped over the batch and warmed up before any clock starts. It runs twice: in its
documented use, which steps values at the points (``ratio``), and on spectra through
``step_fourier``, which saves two transforms a step (``ratio_fourier``) and is how piop steps. Needs
``pip install exponax`` (JAX), which piop does not.

The error of both is taken against a run with more modes and shorter steps. Wall times of other
programs' making show in the spread: medians over the rounds are compared, and CPU time stands
beside.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """What is solved, and how finely.

    Attributes:
        name: Of the result.
        spec: Of piop's own.
        changes: Words of the spec that differ from it.
        batch: Trajectories.
        times: Of the saves.
        sizes: Points along each axis.
        steps: Between two saves.
        finer: Points along each axis and steps of the run that errors are taken against; the
            points of both grids that coincide are compared.
        stepper: Name, length and other arguments of exponax's stepper.
        verified: Whether the whole refinement with its error estimate is timed beside.
    """

    name: str
    spec: str
    changes: dict[str, Any]
    batch: int
    times: tuple[float, ...]
    sizes: tuple[int, ...]
    steps: int
    finer: tuple[int, int]
    stepper: tuple[str, float, dict[str, Any]]
    verified: bool

    @property
    def shared(self) -> int:
        """Points along each axis that both grids have."""
        return math.gcd(self.sizes[0], self.finer[0])


CASES = {
    "burgers": Case(
        "reference_speed",
        "burgers",
        {},
        64,
        tuple(i * 2.475 / 99 for i in range(100)),
        (1536,),
        24,
        (2048, 40),
        (
            "Burgers",
            2 * math.pi,
            {"diffusivity": 0.01, "conservative": True, "single_channel": True},
        ),
        True,
    ),
    "navier_stokes": Case(
        "reference_speed_navier_stokes",
        "navier_stokes",
        {"time": {"t": [0, 10]}, "definitions": {}, "equations": [
            "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = nu*lap(w)"],
         "inputs": {"w0": {"of": ["x", "y"], "law": "gaussian_random_field", "scale": 5.5e6,
                           "tau": 7, "alpha": 4.5, "zero_mean": True}}},
        16,
        tuple(float(i) for i in range(11)),
        (64, 64),
        10,
        (128, 40),
        ("NavierStokesVorticity", 1.0, {"diffusivity": 1e-3, "vorticity_convection_scale": -1.0}),
        False,
    ),
}  # fmt: skip


def main() -> None:
    """Parse the arguments, measure, print or record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    case = CASES[options.case]
    # Both libraries size their thread pools by the processors they may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    figures = measure(case, options.threads, options.rounds)
    if options.record:
        from record import record

        command = f"python benchmarks/reference_speed.py {options.case} --threads {options.threads}"
        record(case.name, f"{command} --record", figures)
    if options.json:
        print(json.dumps(figures))
        return
    for name in ("ratio", "ratio_fourier"):
        print(f"{name} {figures[name]:.3f} (wall), {figures[name + '_cpu']:.3f} (CPU)")
    for side, found in figures.items():
        if isinstance(found, dict) and "seconds_cpu" in found:
            print(f"{side:20s} {found}")


def measure(case: Case, threads: int, rounds: int) -> dict[str, Any]:
    """Time both solvers in turn and compare their solutions with a finer one."""
    import torch

    torch.set_num_threads(threads)
    from specs import reworded

    from piop.reference import solve_reference
    from piop.sampling.distributions import sample_inputs
    from piop.sampling.random import Draws

    problem = reworded(case.spec, **case.changes)
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(case.batch)))
    solvers: dict[str, Callable[[], torch.Tensor]] = {
        "piop": fixed(case, problem, functions, case.sizes, case.steps),
        "exponax": peer(case, functions, fourier=False),
        "exponax_fourier": peer(case, functions, fourier=True),
    }
    kept = {name: thinned(run(), case) for name, run in solvers.items()}  # warm-up, compilation
    fine, steps = case.finer
    sizes = (fine,) * len(case.sizes)
    truth = thinned(fixed(case, problem, functions, sizes, steps)(), case)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in solvers}
    for _ in range(rounds):
        for name, run in solvers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    if case.verified:
        wall, cpu = time.perf_counter(), time.process_time()
        solution = solve_reference(problem, functions)
        seconds["piop_self_verifying"] = [(time.perf_counter() - wall, time.process_time() - cpu)]
    medians = {n: [statistics.median(c) for c in zip(*s, strict=True)] for n, s in seconds.items()}
    figures: dict[str, Any] = {
        name: {
            "seconds_wall": round(medians[name][0], 3),
            "seconds_cpu": round(medians[name][1], 3),
            "rounds_wall": [round(s[0], 3) for s in seconds[name]],
        }
        for name in seconds
    }
    for name, values in kept.items():
        figures[name]["largest_error"] = largest_error(values, truth)
    for i, clock in enumerate(("", "_cpu")):
        for suffix in ("", "_fourier"):
            ratio = medians["piop"][i] / medians["exponax" + suffix][i]
            figures["ratio" + suffix + clock] = round(ratio, 3)
    if case.verified:
        own = medians["piop_self_verifying"]
        figures["ratio_self_verifying_cpu"] = round(own[1] / medians["exponax"][1], 3)
        figures["self_verifying_estimate"] = float(solution.error_estimate.max())
    figures["settings"] = {
        "spec": case.spec, "changes": case.changes, "batch": case.batch, "times": case.times,
        "modes": case.sizes, "steps_per_save": case.steps, "errors_against": case.finer,
        "threads": threads, "dealiasing": "none",
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


def thinned(values: Any, case: Case) -> Any:
    """Values at the points that the grids of the case share."""
    for dim in range(2, values.ndim):
        every = values.shape[dim] // case.shared
        values = values[(slice(None),) * dim + (slice(None, None, every),)]
    return values.clone()


def fixed(
    case: Case, problem: Any, functions: Any, sizes: tuple[int, ...], steps: int
) -> Callable[[], Any]:
    """The reference solver at one resolution and step."""
    import torch

    from piop.reference.fourier.step_lengths import SpectralLevel
    from piop.reference.fourier.time_stepping import Discretisation
    from piop.reference.input_values import Sources

    discretisation = Discretisation(Sources(problem, functions, torch.device("cpu")))
    level = SpectralLevel(sizes, case.times[1], steps, padded=False)
    with torch.no_grad():
        stepper = discretisation.stepper(level, discretisation.sources)
        start = discretisation.initial(stepper.grid, discretisation.sources)

    def run() -> Any:
        with torch.no_grad():
            trajectory = stepper.run(start, 0.0, case.times, level)
            return stepper.grid.backward(trajectory.spectra[:, :, 0])

    return run


def peer(case: Case, functions: Any, fourier: bool) -> Callable[[], Any]:
    """Run exponax at the same settings, stepping points (its documented use) or spectra."""
    import jax
    import numpy as np
    import torch

    jax.config.update("jax_enable_x64", True)
    import exponax
    import jax.numpy as jnp

    (name, length, arguments), rank = case.stepper, len(case.sizes)
    stepper = getattr(exponax.stepper, name)(
        rank, length, case.sizes[0], case.times[1] / case.steps, order=4, dealiasing_fraction=1.0,
        **arguments,
    )  # fmt: skip
    step_once = stepper.step_fourier if fourier else stepper
    saves = len(case.times) - 1
    rollout = exponax.rollout(exponax.repeat(step_once, case.steps), saves, include_init=True)
    axes = tuple(range(-rank, 0))

    def one(start: Any) -> Any:
        if not fourier:
            return rollout(start)[:, 0]
        spectra = rollout(jnp.fft.rfftn(start, axes=axes))
        return jnp.fft.irfftn(spectra, s=case.sizes, axes=axes)[:, 0]

    solve = jax.jit(jax.vmap(one))
    (given,) = functions.values()
    places = [torch.arange(n, dtype=torch.float64) * (length / n) for n in case.sizes]
    start = jnp.asarray(given.on_grid(places).numpy())[:, None]

    def run() -> Any:
        return torch.from_numpy(np.asarray(solve(start).block_until_ready()).copy())

    return run


if __name__ == "__main__":
    main()
