"""Requirements on a problem and a config, checked before anything is built."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from sympy import Number

from piop.errors import UsageError
from piop.models.core.base import Backbone, Preset, Signature
from piop.models.registry import all_backbones, refusal
from piop.problem import Problem
from piop.training.batches.training_grid import grid_counts
from piop.training.build import signature_of
from piop.training.choices import constraints_of, field_kind, preset_of
from piop.training.config import TrainingConfig, require_applicable
from piop.training.distributed import Processes, require_device
from piop.training.loss.statistics import Statistics
from piop.training.loss.weighting import require_weightings
from piop.training.network_size import require_memory
from piop.training.setting_declarations import Circumstances


def require_choices(
    problem: Problem, config: TrainingConfig, data: bool, given: Collection[str] = ()
) -> None:
    """Make sure that the settings, adaptive weights and points of a run have something to do.

    Args:
        problem: The problem.
        config: The run's choices.
        data: Whether there are data.
        given: Names of the settings that were given.

    Raises:
        UsageError: If not, if the conditions cannot be met as asked, or if all inputs are hidden.
    """
    if problem.inputs and not problem.visible_inputs:
        raise UsageError(
            "inputs: all are hidden, so that the operator would have nothing to tell solutions "
            "apart by; observe one of them at least (without hidden: true)"
        )
    parts, field = parts_of(problem, config, data), field_kind(config)
    require_weightings(problem, config, parts)
    adaptive, curriculum = config.points.adaptive, config.sampling.horizon < 1
    asked = f"horizon: {config.sampling.horizon:g}" if curriculum else "method: 'residual_adaptive'"
    if (adaptive or curriculum) and not (config.physics or (curriculum and field.rollout)):
        raise UsageError(f"{asked} places points of the equations, and there is no physics")
    if config.points.shared and not config.physics:
        raise UsageError("shared: True is for points of the equations, and there is no physics")
    if curriculum and problem.time is None:
        raise UsageError(f"{asked} is a part of the time axis, and this problem has none")
    if not problem.domain.is_box and config.physics and config.points.method == "latin_hypercube":
        raise UsageError(
            "method: 'latin_hypercube' divides a box, which a shape does not fill; use uniform or "
            "sobol"
        )
    if adaptive and config.points.shared:
        raise UsageError(
            "method: 'residual_adaptive' chooses other points for each function, and shared: True "
            "asks for the same ones; use --set shared=false or --set method=uniform"
        )
    times = problem.time is not None and not preset_of(config).build.end_only
    require_applicable(given, Circumstances(config, parts, field, bool(problem.space), times))


def require_range(problem: Problem, config: TrainingConfig, statistics: Statistics) -> None:
    """Refuse numbers beyond what the precision of the run holds.

    Args:
        problem: The problem.
        config: The run's choices.
        statistics: What the inputs are like.

    Raises:
        UsageError: Naming the equation or the input, and its number.
    """
    double = config.machine.precision == "float64"
    largest = torch.finfo(torch.float64 if double else torch.float32).max
    found = [
        (f"equation {i}", float(abs(number)))
        for i, residual in enumerate(problem.residuals, start=1)
        for number in residual.atoms(Number)
    ]
    for sizes in (statistics.input_mean, statistics.input_std):
        found += [(f"input '{name}'", abs(size)) for name, size in sizes.items()]
    for size in (*statistics.channel_mean, *statistics.channel_scale, *statistics.equation_scale):
        found.append(("the data", abs(size)))
    for place, size in found:
        if not size <= largest:
            raise UsageError(
                f"{place}: numbers of size {size:.3g}, where {largest:.1g} is the largest of this "
                "precision; write the problem in units in which its values are near 1"
                + (", or use --precision float64" * (not double))
            )


def require_backbone(
    problem: Problem, config: TrainingConfig, statistics: Statistics | None, scattered: bool
) -> None:
    """Make sure that the chosen network can learn what it is given.

    Args:
        problem: The problem.
        config: The run's choices.
        statistics: Typical sizes under the distribution or of the data; None for shapes alone.
        scattered: Whether there are data that lie on no grid.

    Raises:
        UsageError: If it cannot, with the reason and the names of those that can; if it is too
            large for the memory of the machine.
    """
    preset = preset_of(config)
    kind = preset.build.field
    signature = signature_of(problem, constraints_of(problem, config), statistics)
    settings = {k: v for k, v in config.backbone_settings.items() if k != "preset"}
    own = replace(preset.config, **settings)
    given = {"physics": config.physics, "scattered": scattered}
    if reason := obstacle(preset, signature, config=own, **given):
        able = able_backbones(problem, config, statistics, scattered)
        others = f"these can: {', '.join(able)}" if able else "no backbone can"
        raise UsageError(
            f"backbone {config.backbone!r} cannot be trained on {problem.name}: {reason}; {others}"
        )
    if kind.space_time_grid and config.physics and problem.time is not None:
        times, order = grid_counts(problem, config.points)[0], config.points.time_order
        least = max(problem.pde.time_order.values(), default=1) + order
        if times < least:
            raise UsageError(
                f"times: {times} are too few for differences of order {order}; give {least} or "
                f"more, or a lower time_order"
            )
    if not kind.pointwise and config.physics and config.machine.precision == "tf32":
        raise UsageError(
            f"precision: tf32 rounds the differences along the grid of backbone "
            f"{config.backbone!r}, whose error grows with their order; use float32"
        )
    require_memory(preset, signature, own, config.machine)


def able_backbones(
    problem: Problem, config: TrainingConfig, statistics: Statistics | None, scattered: bool
) -> list[str]:
    """Name the backbones that can learn what a run is given, and the preset where not the usual.

    Args:
        problem: The problem.
        config: The run's choices, but for the network.
        statistics: Typical sizes under the distribution or of the data; None for shapes alone.
        scattered: Whether there are data that lie on no grid.
    """
    given, found = {"physics": config.physics, "scattered": scattered}, []
    for name, presets in all_backbones()[0].items():
        for key in sorted(presets, key=lambda key: key != "default"):
            own = {"backbone_settings": {"preset": key}, "network": None}
            other = replace(config, backbone=name, **own)
            try:
                signature = signature_of(problem, constraints_of(problem, other), statistics)
            except UsageError:
                continue
            if obstacle(presets[key], signature, **given) is None:
                found.append(name if key == "default" else f"{name} (--set preset={key})")
                break
    return found


def obstacle(
    preset: Preset,
    signature: Signature,
    *,
    physics: bool,
    scattered: bool = False,
    config: Any = None,
) -> str | None:
    """Return why a network cannot be trained on a problem; None where it can.

    Args:
        preset: The network.
        signature: The problem's shapes, as :func:`piop.training.build.signature_of` returns them.
        physics: Whether it is trained on the equations.
        scattered: Whether there are data that lie on no grid.
        config: The network's sizes and choices where they differ from the preset's.

    Returns:
        A clause such as ``"input 'a' has jumps and scattered sensors"``.
    """
    reason, build = refusal(preset, signature, config), preset.build
    if reason is None and physics:
        reason = _beyond_equations(build, signature)
    if reason is None and scattered and not build.field.pointwise and not build.scattered:
        reason = "it answers on grids alone, and the data are scattered"
    return reason


def _beyond_equations(build: type[Backbone], signature: Signature) -> str | None:
    """Return why a field of this kind cannot be trained on the equations; None where it can."""
    if signature.time is not None and build.end_only:
        return "it answers at the end of the time axis alone, where the equations hold throughout"
    space = [axis for i, axis in enumerate(signature.coordinates) if i != signature.time]
    walls = [axis.name for axis in space if not axis.periodic]
    if not build.field.pointwise and walls:
        return (
            f"it answers on a grid, along which the equations differentiate by spectra, and axis "
            f"{walls[0]!r} is not periodic"
        )
    return None


def require_work(config: TrainingConfig, data: bool, processes: Processes) -> None:
    """Check that every process has functions, and a device, of its own.

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
    """Return the terms that the loss will have, before anything is built.

    Raises:
        UsageError: If the constraints cannot be met as requested.
    """
    found = {"data": data}
    if config.physics:
        constraints = constraints_of(problem, config)
        walls = constraints.soft_periodic or constraints.soft_faces
        found |= {"residual": True, "initial": bool(constraints.soft_initial)}
        found["boundary"] = bool(walls or problem.pde.means)
    return {part for part, present in found.items() if present}
