"""How claims become tests: one for each case, without pytest before tests are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from piop.models.core.base import Presets
from piop.testing.cases import OWN, Case, cases_of

EXACT = 1e-12
"""Of answers of order one in float64: sums in another order, nothing else."""

FITTED = 1e-9
"""The same behind a harmonic fit to sensors, whose equations magnify rounding."""

MOVES = 1e-6
"""Least change of an answer that follows what was changed."""

Test = TypeVar("Test", bound=Callable[..., None])


def only_for(holds: Callable[[Case], bool]) -> Callable[[Test], Test]:
    """Run a test for the cases alone of which something holds."""

    def mark(test: Test) -> Test:
        test.holds = holds  # type: ignore[attr-defined]
        return test

    return mark


def slow_for(holds: Callable[[Case], bool]) -> Callable[[Test], Test]:
    """Mark a test as slow, as ``pytest.mark.slow`` does, for the cases of which something holds."""

    def mark(test: Test) -> Test:
        test.slow = holds  # type: ignore[attr-defined]
        return test

    return mark


def always(case: Case) -> bool:
    """Whatever the case."""
    return True


def never(case: Case) -> bool:
    """For no case."""
    return False


def answers_points(case: Case) -> bool:
    """Whether each answer depends on its query alone."""
    return case.preset.build.field.pointwise


def takes_any_sensors(case: Case) -> bool:
    """Whether a function is seen at sensors that may differ from sample to sample."""
    return any(not entry.gridded for entry in case.signature.functions)


def of_its_own(case: Case) -> bool:
    """Whether the shapes are those of the preset's own signature."""
    return case.name == OWN


class Suite:
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

        holds = getattr(metafunc.function, "holds", always)
        slow = getattr(metafunc.function, "slow", never)
        chosen = [
            pytest.param(case, id=name, marks=[pytest.mark.slow] if slow(case) else [])
            for name, case in cases_of(self.presets).items()
            if holds(case)
        ]
        metafunc.parametrize("case", chosen)
