"""The configuration of a run, from the spec, the user and the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from piop.arguments import MOST_THREADS, flag, seed_number, whole_number
from piop.errors import SpecError, UsageError, excerpt
from piop.fields import usable_device
from piop.models.registry import sized_config
from piop.problem import Problem
from piop.problem.classify import is_linear
from piop.problem.residual_form import decide_form
from piop.problem.time_windows import decide_windows
from piop.run.threads import default_threads
from piop.spec.model import issue_at
from piop.training.build import DTYPES, signature_of
from piop.training.choices import constraints_of, preset_of
from piop.training.config import (
    POINTWISE,
    AdaptiveConfig,
    BudgetConfig,
    LossConfig,
    MachineConfig,
    OptimiserConfig,
    TrainingConfig,
    apply_settings,
    settings_for,
)

RECIPE_SETTINGS = frozenset(vars(OptimiserConfig())) | frozenset(vars(AdaptiveConfig()))
"""Settings of the optimiser and of the weights that learn."""


def configure(
    problem: Problem,
    config: TrainingConfig,
    backbone: Any,
    settings: Mapping[str, Any] | None,
) -> TrainingConfig:
    """Apply the spec's ``solve:`` block, then the settings given.

    The block's recipe (optimiser, adaptive weights) is for its own network and for the equations:
    another network, or training on data alone, begins with the usual one.

    Raises:
        UsageError: For an unknown key or a value that is not allowed.
    """
    own = dict(problem.solve)
    usual = str(own.pop("backbone", config.backbone))
    if backbone is None or isinstance(backbone, str):
        config = replace(config, backbone=usual if backbone is None else backbone)
    else:
        config = config.with_network(backbone)
    if config.backbone != usual:  # the spec's sizes are those of its own network
        network = preset_of(replace(config, backbone=usual, network=None), own)
        own = _without(own, {"preset", *vars(network.config)})
    if config.backbone != usual or not config.physics:
        own = _without(own, RECIPE_SETTINGS)
    elif (settings or {}).get("optimiser", own.get("optimiser")) != own.get("optimiser"):
        own = _without(own, {"learning_rate"})  # a step size is one optimiser's
    if not preset_of(config, {**own, **(settings or {})}).build.field.pointwise:
        own = _without(own, settings_for(POINTWISE))  # its points, which are drawn
    chosen = {**defaults_of_problem(problem), **own, **(settings or {})}
    return apply_settings(config, chosen, vars(preset_of(config, chosen).config))


def check_recipe(problem: Problem) -> None:
    """Refuse what a run would refuse of the spec's ``solve:`` block.

    Raises:
        SpecError: With every setting that is unknown or has a value that is not allowed, at its
            place; where there are none, with the reason why the network cannot serve the problem.
    """
    own, start = dict(problem.solve), TrainingConfig(BudgetConfig(steps=1))
    config = replace(start, backbone=str(own.pop("backbone", start.backbone)))
    network = {"preset": own.pop("preset")} if "preset" in own else {}
    found: list[tuple[str, UsageError]] = []

    def attempt(key: str, settings: Mapping[str, Any]) -> None:
        try:
            apply_settings(config, settings, vars(preset_of(config, settings).config))
        except UsageError as error:
            found.append((key, error))

    attempt("backbone", {})
    if not found and network:
        attempt("preset", network)
    if not found:  # else the settings of the network are not known
        for key, value in own.items():
            attempt(key, {**network, key: value})
    if not found:
        try:
            config = configure(problem, start, None, None)
            sizes = {k: v for k, v in config.backbone_settings.items() if k != "preset"}
            signature = signature_of(problem, constraints_of(problem, config))
            sized_config(config.backbone, preset_of(config), signature, **sizes)
        except UsageError as error:
            found.append(("backbone", error))
        try:
            decide_windows(problem, config.loss.constraints, config.loss.windows)
        except ValueError as error:
            found.append(("windows", UsageError(str(error))))
        try:
            loss = config.loss
            decide_form(problem, loss.constraints, loss.form, loss.linear_part)
        except ValueError as error:
            found.append(("form", UsageError(str(error))))
    if found:
        place = problem.spec.place
        raise SpecError(tuple(issue_at(place(f"solve.{k}"), f"solve: {e}") for k, e in found))


def _without(settings: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def defaults_of_problem(problem: Problem) -> dict[str, Any]:
    """Settings that go with a kind of problem, where neither spec nor user says otherwise.

    Linear equations have no fronts to damp; more dimensions want more points per function.
    """
    queries = {0: 64, 1: 128, 2: 192, 3: 256}[len(problem.space)]
    front = 0.0 if is_linear(problem) else LossConfig().front
    return {"queries": queries, "front": front}


def choose_device(requested: str | None) -> str:
    """Return the requested device, else CUDA where there is a device, else the CPU.

    Raises:
        UsageError: If CUDA was requested and is not there, or the device is unknown.
    """
    if requested is not None and not (isinstance(requested, str) and requested in ("cpu", "cuda")):
        raise UsageError(f"device: {excerpt(requested)} is not one of cpu, cuda")
    usable_device(requested)
    return requested or ("cuda" if torch.cuda.is_available() else "cpu")


def choose_machine(
    device: str | None,
    precision: str,
    compile: bool | None,
    threads: int | None,
    seed: int,
) -> MachineConfig:
    """Settle everything that was left open.

    Raises:
        UsageError: For a value that is not allowed.
    """
    if not isinstance(precision, str) or precision not in DTYPES:
        raise UsageError(f"precision: {excerpt(precision)} is not one of {', '.join(DTYPES)}")
    threads = None if threads is None else whole_number("threads", threads, 1, MOST_THREADS)
    seed = seed_number(seed)
    compile = None if compile is None else flag("compile", compile)
    chosen = choose_device(device)
    if precision == "tf32" and chosen != "cuda":
        raise UsageError(
            "precision: tf32 is how CUDA devices multiply float32; the CPU has no such mode. "
            "Use --precision float32"
        )
    return MachineConfig(
        device=chosen,  # type: ignore[arg-type]
        precision=precision,  # type: ignore[arg-type]
        compile=compile,
        threads=threads,
        default_threads=default_threads() if threads is None else None,
        seed=seed,
    )


def move_to_device(config: TrainingConfig, device: str | None) -> TrainingConfig:
    """Move a recorded run to a device: the requested one, its own, or the CPU.

    Raises:
        UsageError: If the requested device is not there.
    """
    own = config.machine.device
    if device is None and own == "cuda" and not torch.cuda.is_available():
        device = "cpu"
    chosen = choose_device(own if device is None else device)
    machine = replace(config.machine, device=chosen)  # type: ignore[arg-type]
    if chosen != "cuda":
        machine = replace(machine, kernel="torch", cuda_graphs=False)
    return replace(config, machine=machine)


def require_graphs(machine: MachineConfig) -> None:
    """Refuse CUDA graphs where there is nothing to record.

    Raises:
        UsageError: On a CPU, or without compilation.
    """
    if not machine.cuda_graphs:
        return
    if machine.device != "cuda":
        raise UsageError(
            "cuda_graphs: true replays the kernels of a CUDA device, and this run is on the CPU, "
            "which launches none. Use --device cuda, or leave cuda_graphs false"
        )
    if machine.compile is not True:
        raise UsageError(
            "cuda_graphs: true records a compiled step, and this run is not compiled. Use --compile"
        )


@contextmanager
def precision_of(machine: MachineConfig) -> Iterator[None]:
    """Train a block in the precision of a run, and give torch's own modes back after it.

    On a GPU float32 means float32, whatever mode torch was in before, unless ``tf32`` is requested.
    """
    if machine.device != "cuda":
        yield
        return
    convolution = torch.backends.cudnn.conv  # pyright: ignore[reportAttributeAccessIssue]
    modes = (torch.backends.cuda.matmul, convolution)
    before = [mode.fp32_precision for mode in modes]
    try:
        for mode in modes:
            mode.fp32_precision = "tf32" if machine.precision == "tf32" else "ieee"
        yield
    finally:
        for mode, value in zip(modes, before, strict=True):
            mode.fp32_precision = value
