"""Cases of the contract: presets on the shapes of problems, and one test for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch

from piop.fields import FunctionSamples
from piop.models.core.base import (
    AxisSignature,
    Backbone,
    InputSignature,
    Preset,
    Presets,
    Signature,
)
from piop.models.registry import refusal
from piop.testing.samples import EvaluationPoints, points_for, samples_for

TIME = AxisSignature("t", 0.0, 2.475)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
UNIT = AxisSignature("y", -1.0, 1.0, periodic=True)
WALLED = AxisSignature("z", 0.0, 2.0)

SIGNATURES: Mapping[str, Signature] = {
    "evolution": Signature(
        (TIME, RING), (InputSignature("u0", ("x",), mean=0.1, std=0.6),), 1, 0, ("x",)
    ),
    "plane": Signature((TIME, RING, UNIT), (InputSignature("u0", ("x", "y")),), 2, 0, ("x", "y")),
    "not homogeneous": Signature((TIME, RING), (InputSignature("u0", ("x",)),), 1, 0),
    "walls": Signature((TIME, WALLED), (InputSignature("u0", ("z",)),), 1, 0),
    "steady": Signature(
        (RING, WALLED), (InputSignature("a", ("x", "z"), smooth=False),), 1, None, ("x",)
    ),
    "steady on a grid": Signature(
        (RING, WALLED), (InputSignature("a", ("x", "z"), smooth=False, gridded=True),), 1
    ),
    "evolution on a grid": Signature(
        (TIME, RING), (InputSignature("u0", ("x",), channels=2, gridded=True),), 2, 0, ("x",)
    ),
    "steady and homogeneous": Signature((RING,), (InputSignature("f", ("x",)),), 1, None, ("x",)),
    "several": Signature(
        (TIME, RING),
        (
            InputSignature("nu", (), mean=0.05, std=0.02),
            InputSignature("u0", ("x",), channels=2),
            InputSignature("f", ("t", "x")),
            InputSignature("k", ("x",), smooth=False),
        ),
        3,
        0,
        ("x",),
    ),
    "scalar alone": Signature((TIME, RING), (InputSignature("nu", ()),), 1, 0, ("x",)),
    "none": Signature((TIME, RING), (), 1, 0, ("x",)),
}
"""Periodic and walled axes, with and without time; smooth, rough, several, gridded and no inputs.

They cover the differences among the problems that piop serves; a network may refuse any."""

PUBLISHED_SIGNATURES = ("evolution", "steady", "several")
"""Signatures for published networks, which serve the shapes of their papers first."""

OWN_SIGNATURE = "own"
"""Name of the case of a preset's own signature."""


@dataclass(frozen=True)
class Case:
    """A preset on the shapes of a problem.

    Attributes:
        name: Name of the shapes.
        preset: The network; its ``small`` values are taken.
        signature: The shapes.
        leading: Whether the preset is the first of its class, which is tested on other shapes too.
    """

    name: str
    preset: Preset
    signature: Signature
    leading: bool = True

    @property
    def config(self) -> Any:
        """The preset's config with its ``small`` values in place."""
        return replace(self.preset.config, **self.preset.small)

    def build(self, seed: int = 0) -> Backbone:
        """Make the network in float64, as it predicts, with weights of a seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.preset.build(self.signature, self.config).double().eval()

    def prepare(
        self, batch: int = 2
    ) -> tuple[Backbone, dict[str, FunctionSamples], EvaluationPoints]:
        """Make the network, random inputs and the points to evaluate it at."""
        model = self.build()
        return model, samples_for(self.signature, batch), points_for(model, batch)


def cases_of(presets: Presets) -> dict[str, Case]:
    """Choose the cases on which presets are tested.

    Every preset is tested on its own signature. The first of each class is tested besides on all of
    ``SIGNATURES`` that it does not refuse, where it has a ``source`` on
    ``PUBLISHED_SIGNATURES``. A preset under a second name is tested once.

    Args:
        presets: Name → preset.

    Returns:
        Name of preset and shapes → case.
    """
    found: dict[str, Case] = {}
    classes: set[type[Any]] = set()
    tested: set[int] = set()
    for name, preset in presets.items():
        if id(preset) in tested:
            continue
        leading = preset.build not in classes
        tested.add(id(preset))
        classes.add(preset.build)
        found[f"{name}-{OWN_SIGNATURE}"] = Case(OWN_SIGNATURE, preset, preset.signature, leading)
        for shapes in (PUBLISHED_SIGNATURES if preset.source else SIGNATURES) if leading else ():
            signature = SIGNATURES[shapes]
            case = Case(shapes, preset, signature)
            if signature != preset.signature and not refusal(preset, signature, case.config):
                found[f"{name}-{shapes}"] = case
    return found


ROUNDING = 1e-12
"""Tolerance for outputs of order one in float64, whose sums run in another order."""

FIT_ROUNDING = 1e-9
"""The same after a harmonic fit to sensors, whose equations magnify rounding."""

LEAST_CHANGE = 1e-6
"""Least change of an output that depends on what was changed."""

Test = TypeVar("Test", bound=Callable[..., None])


def _under(name: str, holds: Callable[[Case], bool]) -> Callable[[Test], Test]:
    def decorate(test: Test) -> Test:
        test.__dict__[name] = holds
        return test

    return decorate


only_for = partial(_under, "holds")
"""Run a test for those cases alone that satisfy a condition."""

slow_for = partial(_under, "slow")
"""Mark a test as slow, as ``pytest.mark.slow`` does, for cases that satisfy a condition."""


def always(case: Case) -> bool:
    """Accept every case."""
    return True


def evaluates_pointwise(case: Case) -> bool:
    """Whether each output depends on its query alone."""
    return case.preset.build.field.pointwise


def has_free_sensors(case: Case) -> bool:
    """Whether sensors of a function may differ from sample to sample."""
    return any(not entry.gridded for entry in case.signature.functions)


def has_own_signature(case: Case) -> bool:
    """Whether the shapes are those of the preset's own signature."""
    return case.name == OWN_SIGNATURE


class CaseTests:
    """Tests that take a ``case``.

    Attributes:
        presets: Name → preset, as an entry point of ``piop.backbones`` gives them.
    """

    presets: ClassVar[Presets] = {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Give pytest one test for each case; refused ones are not made."""
        if "case" not in metafunc.fixturenames:
            return
        import pytest

        conditions = vars(metafunc.function)
        holds, slow = conditions.get("holds", always), conditions.get("slow")
        chosen = [
            pytest.param(case, id=name, marks=[pytest.mark.slow] if slow and slow(case) else [])
            for name, case in cases_of(self.presets).items()
            if holds(case)
        ]
        metafunc.parametrize("case", chosen)
