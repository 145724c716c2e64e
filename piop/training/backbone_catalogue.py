"""Catalogue of backbones: presets, sizes, evaluation, and the problems that each can learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from piop.errors import NotSupportedError, UsageError
from piop.models.core.base import Backbone, FieldKind, Preset
from piop.models.registry import all_backbones
from piop.problem import Problem
from piop.spec.load import builtin_names
from piop.training.build import signature_of
from piop.training.choices import constraints_of
from piop.training.config import BudgetConfig, LossConfig, TrainingConfig
from piop.training.requirements import obstacle

Obstacles = Mapping[str, str | None]
"""Name of a problem → why it cannot be served; None where it can."""

Judge = Callable[[Preset], str | None]
"""A network → why it cannot be trained on a problem; None where it can."""


@dataclass(frozen=True)
class Entry:
    """A preset of a backbone.

    Attributes:
        backbone: Name of the backbone.
        preset: Name of the preset.
        network: Its class, which states how it is evaluated.
        parameters: How many, at the preset's own signature.
        source: The published column or script that it is; empty for piop's own.
        physics: What it can learn from the equations.
        data: What it can learn from data on a grid.
        same_as: First name of the same preset; empty where this is the first.
    """

    backbone: str
    preset: str
    network: type[Backbone]
    parameters: int
    source: str
    physics: Obstacles
    data: Obstacles
    same_as: str = ""


def catalogue(specs: Sequence[str] | None = None) -> tuple[list[Entry], list[str]]:
    """List every preset of every backbone, those of other packages too.

    Args:
        specs: Names or files of the problems to try; by default all that come with piop.

    Returns:
        The presets in the order of the table, and what is wrong with backbones that are left out.
    """
    named = [Problem.from_file(name) for name in (builtin_names() if specs is None else specs)]
    problems = [p if p.learn is None else p.inverse() for p in named]
    found, faults = all_backbones()
    judges: dict[tuple[FieldKind, bool], dict[str, Judge]] = {}
    entries = []
    for backbone, presets in found.items():
        for name, preset in presets.items():
            kind = preset.build.field
            served: dict[bool, Obstacles] = {}
            for physics in (True, False):
                if (kind, physics) not in judges:
                    judges[kind, physics] = {
                        p.name: _judge(p, backbone, name, physics) for p in problems
                    }
                served[physics] = {
                    spec: judge(preset) for spec, judge in judges[kind, physics].items()
                }
            first = next(key for key, other in presets.items() if other is preset)
            same = "" if first == name else first
            own = preset.build, parameters(preset), preset.source
            entries.append(Entry(backbone, name, *own, served[True], served[False], same))
    return entries, faults


def parameters(preset: Preset) -> int:
    """Count the parameters of a preset at its own signature."""
    with torch.random.fork_rng(devices=[]):
        return sum(p.numel() for p in preset.build(preset.signature, preset.config).parameters())


def _judge(problem: Problem, backbone: str, preset: str, physics: bool) -> Judge:
    """Return what tells why a network that answers as this one cannot be trained on a problem.

    Conditions, and so shapes, depend on how a network answers and on nothing else of it.
    """
    constraints = problem.solve.get("constraints", "auto")
    config = TrainingConfig(
        BudgetConfig(steps=1),
        loss=replace(LossConfig(), constraints=constraints),
        backbone=backbone,
        backbone_settings={"preset": preset},
        physics=physics,
    )
    try:
        problem.capabilities.training(physics).require()
        signature = signature_of(problem, constraints_of(problem, config))
    except (NotSupportedError, UsageError) as error:
        reason = str(error)
        return lambda _: reason
    return partial(obstacle, signature=signature, physics=physics)
