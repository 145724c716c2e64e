"""The list of backbones is derived: sizes from networks, what they serve from their refusals."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from piop.models import BACKBONES, Backbone, build_backbone, find_preset
from piop.models.core.base import BURGERS, GRID_FIELD, Preset
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.training import backbone_catalogue as module
from piop.training.backbone_catalogue import catalogue, parameters
from piop.training.build import signature_of
from piop.training.requirements import obstacle

STEADY = """
piop: 1
name: still
space: {x: [0, 1]}
unknowns: [u]
inputs: {f: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 3]}}
equations: [-dxx(u) = f]
boundary: {x: {dirichlet: {u: 0}}}
"""


@dataclass(frozen=True)
class Nothing:
    """No choice."""


class OneInput(Backbone):
    """Takes functions of one coordinate, on a grid, at the end."""

    field, end_only = GRID_FIELD, True

    def __init__(self, signature, config):
        super().__init__(signature)

    @classmethod
    def refusal(cls, signature, config):
        wide = [e.name for e in signature.inputs if len(e.of) > 1]
        return f"input {wide[0]!r} has 2 coordinates" if wide else None

    def forward(self, inputs, queries):
        raise NotImplementedError


@pytest.fixture
def only(monkeypatch):
    """Let the table hold these presets alone."""

    return lambda table: monkeypatch.setattr("piop.models.registry.BACKBONES", table)


def test_parameters_are_those_of_the_network_at_its_own_signature():
    preset = find_preset("deeponet", "paper")
    network = build_backbone("deeponet", BURGERS, "paper")
    assert parameters(preset) == sum(p.numel() for p in network.parameters()) == 124_101


def test_a_network_serves_what_it_does_not_refuse_and_the_reason_is_told(only):
    only({"one": {"default": Preset(OneInput, Nothing(), source="a paper")}})
    (entry,), faults = catalogue(["burgers", "heat2d"])
    assert not faults
    assert (entry.parameters, entry.network) == (0, OneInput)
    assert entry.source == "a paper"
    assert entry.data == {"burgers": None, "heat2d": "input 'u0' has 2 coordinates"}
    assert "end of the time axis" in entry.physics["burgers"]
    assert entry.physics["heat2d"] == entry.data["heat2d"]


def test_it_agrees_with_what_a_run_asks_before_it_starts(only):
    only({"position_attention": BACKBONES["position_attention"]})
    entries, _ = catalogue(["heat"])
    problem = Problem.from_file("heat")
    shapes = signature_of(problem, decide_constraints(problem))
    for entry in entries:
        preset = find_preset(entry.backbone, entry.preset)
        assert entry.physics["heat"] == obstacle(preset, shapes, physics=True)
        assert entry.data["heat"] == obstacle(preset, shapes, physics=False)
    assert {entry.physics["heat"] is None for entry in entries} == {True, False}


def test_a_steady_problem_is_learned_from_its_equation_too(only, tmp_path):
    only({"deeponet": {"default": find_preset("deeponet")}})
    path = tmp_path / "still.yaml"
    path.write_text(STEADY)
    (entry,), _ = catalogue([str(path)])
    assert entry.physics == {"still": None}
    assert entry.data == {"still": None}


def test_every_preset_of_the_table_is_listed_once(monkeypatch):
    monkeypatch.setattr(module, "parameters", lambda preset: 0)
    entries, faults = catalogue(["burgers"])
    listed = [(entry.backbone, entry.preset) for entry in entries]
    assert listed == [(name, preset) for name, ps in BACKBONES.items() for preset in ps]
    assert not faults
    assert all(
        entry.physics["burgers"] is None and entry.data["burgers"] is None
        for entry in entries
        if entry.preset == "default"
    ), "every default learns the first problem of the papers, from equations or data"
