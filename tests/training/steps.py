"""A few steps of training by one or several processes, weights noted after each."""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from piop.datasets import Dataset
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.residual import compile_residual
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import (
    AdaptiveConfig,
    BudgetConfig,
    LossConfig,
    MachineConfig,
    OptimiserConfig,
    PointsConfig,
    TrainingConfig,
)
from piop.training.distributed import SingleProcess, joined
from piop.training.loop import phases
from piop.training.loop.callbacks import Callbacks, on_rows
from piop.training.loop.compilation import StepGradients
from piop.training.loop.trainer import Trainer
from piop.training.loss.statistics import distribution_statistics
from piop.training.state_waves import find_states, window_statistics

BURGERS = """
piop: 1
name: small_burgers
time: {t: [0, 1]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) + u*dx(u) = 0.05*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
"""

INVERSE = BURGERS.replace("0.05*", "nu*") + "parameters: {nu: 0.05}\ninfer: [nu]\n"

BASE = TrainingConfig(
    BudgetConfig(steps=7),
    PointsConfig(functions=5, queries=20, boundary=6, data_functions=7, data_queries=9),
    machine=MachineConfig(precision="float64", checkpoint=0.0),
    optimiser=OptimiserConfig(warmup=0.3, precondition=3),
    backbone_settings={"width": 8, "blocks": 1, "heads": 2},
)
ADAMW = replace(BASE.optimiser, optimiser="adamw", learning_rate=1e-3, average=0.9)
CASES = {
    "soap": BASE,
    "adamw with average": replace(BASE, optimiser=ADAMW),
    "lbfgs": replace(
        BASE,
        budget=BudgetConfig(steps=70),
        optimiser=replace(BASE.optimiser, lbfgs=0.93),
    ),
    "windows": replace(
        BASE,
        budget=BudgetConfig(steps=70),
        loss=LossConfig(windows=3),
        optimiser=replace(ADAMW, lbfgs=0.8),
    ),
    "causal": replace(BASE, adaptive=AdaptiveConfig(causal=2.0, bins=4)),
    "tangent kernels of soft conditions": replace(
        BASE,
        loss=LossConfig(constraints="soft"),
        adaptive=AdaptiveConfig(weighting="ntk", weight_every=3),
    ),
    "attention": replace(BASE, adaptive=AdaptiveConfig(weighting="residual_attention")),
    "data and physics": BASE,
    "data and a parameter": replace(BASE, adaptive=AdaptiveConfig(weighting="gradient_norm")),
    "data alone": replace(BASE, physics=False),
}


def data_with_gaps():
    """Six trajectories, of which some values are not known: more of the first than of the last."""
    x, t = torch.arange(8).double() / 4, torch.linspace(0, 1, 3).double()
    phase = torch.arange(6).double()[:, None]
    values = torch.cos(torch.pi * x + phase)
    u = values[:, None] * torch.exp(-t)[None, :, None]
    u[:3, 1:, ::2] = torch.nan
    points = x[None, :, None].expand(6, -1, -1)
    return Dataset({"u0": FunctionSamples(points, values[..., None])}, {"t": t, "x": x}, {"u": u})


RESUMED = {"soap": 4, "lbfgs": 20, "windows": 20}
"""Cases that are also stopped on the way, and the step from which on they are asked to stop."""
FROZEN_BATCHES = 2
"""For L-BFGS, in place of more: each costs as much as a step."""
ITERATIONS = 1
"""Of L-BFGS in a step, in place of more, so that a run can stop between its steps."""


def build_trainer(name, folder, processes=None, stop=None):
    problem, config = Problem.from_yaml(INVERSE if "parameter" in name else BURGERS), CASES[name]
    data = data_with_gaps() if name.startswith("data") else None
    statistics = distribution_statistics(problem.at(), compile_residual(problem.at()), 0)
    if windows := config.loss.windows:
        statistics = window_statistics(problem, find_states(problem, windows, asked=True))
    model = build_model(problem, statistics, config)
    part = (processes or SingleProcess()).part
    given = data is not None
    loss = build_objective(model, statistics, config, data=given, part=part)
    draw = build_source(model, loss, statistics, config, data, processes)
    gradients = StepGradients(loss, compiled=False)
    (folder / "state").mkdir(parents=True, exist_ok=True)

    def ask_to_stop(row):
        if stop is not None and row["step"] >= stop:
            raise KeyboardInterrupt

    called = Callbacks([on_rows(ask_to_stop)])
    return Trainer(loss, draw, gradients, config, folder, called, processes=processes)


def weights_of(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.operator.parameters()])


def weights_by_step(trainer):
    """Train and give the weights after each step ``[steps, P]``."""
    advance, found = trainer._advance, []

    def noted():
        row = advance()
        found.append(weights_of(trainer))
        return row

    trainer._advance = noted
    trainer.run()
    return torch.stack(found)


def main():
    """Train every case, and some in two parts; each process keeps what it saw."""
    folder = Path(sys.argv[1])
    phases.FROZEN_BATCHES = FROZEN_BATCHES
    phases.ITERATIONS = ITERATIONS
    with joined() as processes:
        assert not isinstance(processes, SingleProcess)
        for name in CASES:
            trainer = build_trainer(name, folder / name, processes)
            before = processes.bytes_sent
            weights = weights_by_step(trainer)
            found = {"weights": weights, "bytes": processes.bytes_sent - before}
            torch.save(found, folder / f"{name} {processes.rank}.pt")
        for name, stop in RESUMED.items():
            trainer = build_trainer(name, folder / f"begun by two, {name}", processes, stop)
            trainer.run()
            assert trainer.interrupted
            trainer = build_trainer(name, folder / f"begun by one, {name}", processes)
            trainer.resume(torch.device("cpu"))
            trainer.run()


if __name__ == "__main__":
    main()
