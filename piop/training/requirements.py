"""What must hold of a problem and a config before anything is built."""

from __future__ import annotations

from typing import Any

from piop.errors import UsageError
from piop.models.base import Signature
from piop.models.preset import Preset
from piop.models.registry import refusal
from piop.problem import Problem
from piop.training.config import TrainingConfig
from piop.training.distributed import Processes, require_device
from piop.training.setup import conditions_of
from piop.training.weighting.choose import require_weights


def require_choices(problem: Problem, config: TrainingConfig, data: bool) -> None:
    """Make sure that the adaptive weights and points that are asked for have something to do.

    Raises:
        UsageError: If not, or if the conditions cannot be met as asked.
    """
    require_weights(problem, config, parts_of(problem, config, data))
    adaptive, curriculum = config.points.method == "residual_adaptive", config.sampling.horizon < 1
    asked = f"horizon: {config.sampling.horizon:g}" if curriculum else "method: 'residual_adaptive'"
    if (adaptive or curriculum) and not config.physics:
        raise UsageError(f"{asked} places points of the equations, and there is no physics")
    if config.points.shared and not config.physics:
        raise UsageError("shared: True is for points of the equations, and there is no physics")
    if curriculum and problem.time is None:
        raise UsageError(f"{asked} is a part of the time axis, and this problem has none")
    if adaptive and config.points.shared:
        raise UsageError(
            "method: 'residual_adaptive' chooses other points for each function, and shared: True "
            "asks for the same ones; use --set shared=false or --set method=uniform"
        )


def obstacle(
    preset: Preset, signature: Signature, *, physics: bool, config: Any = None
) -> str | None:
    """Say why a network cannot be trained on a problem; None where it can.

    Args:
        preset: The network.
        signature: The problem's shapes, as :func:`piop.training.setup.signature_of` tells them.
        physics: Whether it is to learn from the equations.
        config: The network's sizes and choices where they differ from the preset's.

    Returns:
        A clause such as ``"input 'a' has jumps and scattered sensors"``.
    """
    reason = refusal(preset, signature, config)
    if reason is None and physics and signature.time is not None and preset.build.times == "end":
        reason = "it answers at the end of the time axis alone, where the equations hold throughout"
    return reason


def require_work(config: TrainingConfig, data: bool, processes: Processes) -> None:
    """Make sure that every process has functions, and a device, of its own.

    Raises:
        UsageError: If there are more processes than functions, trajectories or devices.
    """
    if processes.count == 1:
        return
    if config.physics:
        processes.require(config.points.functions, "functions")
    if data:
        processes.require(config.points.data_functions, "data_functions")
    require_device(config.machine.device)


def parts_of(problem: Problem, config: TrainingConfig, data: bool) -> set[str]:
    """Find the parts that the loss will have, before anything is built.

    Raises:
        UsageError: If the conditions cannot be met as asked.
    """
    found = {"data"} if data else set()
    if config.physics:
        conditions = conditions_of(problem, config)
        gauged = problem.gauge or any(item.gauged for item in problem.auxiliaries)
        found |= {"residual"}
        found |= {"initial"} if conditions.initial else set()
        found |= {"boundary"} if conditions.penalised_periodic or gauged else set()
    return found
