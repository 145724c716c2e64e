"""What keeps a network from a problem is found before anything is built, from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from piop.models.base import Backbone, Signature
from piop.models.preset import Preset
from piop.problem import Problem
from piop.problem.conditions import decide_conditions
from piop.training.requirements import obstacle
from piop.training.setup import signature_of


@dataclass(frozen=True)
class Sizes:
    """One choice that decides."""

    walls: bool = False


class Picky(Backbone):
    """Serves no walls unless told to, and knows the end alone."""

    times = "end"

    @classmethod
    def refusal(cls, signature, config):
        walls = [axis.name for axis in signature.coordinates[1:] if not axis.periodic]
        return f"axis {walls[0]!r} has walls" if walls and not config.walls else None

    def forward(self, inputs, queries):
        raise NotImplementedError


def shapes(constraints="auto") -> Signature:
    problem = Problem.from_file("heat")
    return signature_of(problem, decide_conditions(problem, constraints))


@pytest.mark.parametrize(
    ("constraints", "config", "physics", "reason"),
    [
        ("auto", Sizes(), False, None),
        ("auto", Sizes(), True, "it answers at the end of the time axis alone"),
        ("soft", Sizes(), False, "axis 'x' has walls"),
        ("soft", Sizes(walls=True), False, None),
    ],
)
def test_an_obstacle_is_the_refusal_or_what_the_equations_ask_beyond_it(
    constraints, config, physics, reason
):
    found = obstacle(Preset(Picky, Sizes()), shapes(constraints), physics=physics, config=config)
    assert found == reason or (reason and found and found.startswith(reason))


@pytest.mark.parametrize(("spec", "gridded"), [("heat", False), ("heat2d", True)])
def test_a_signature_without_statistics_tells_the_shapes(spec, gridded):
    problem = Problem.from_file(spec)
    (entry,) = signature_of(problem, decide_conditions(problem)).inputs
    assert (entry.mean, entry.std, entry.gridded) == (0.0, 1.0, gridded)
    assert entry.waves >= 3
