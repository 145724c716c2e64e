"""Every preset of the table keeps the contract: a new one inherits these tests."""

from __future__ import annotations

import dataclasses

import pytest

from piop.models import BACKBONES
from piop.testing import BackboneContract

PRESETS = {f"{name}-{p}": preset for name, ps in BACKBONES.items() for p, preset in ps.items()}


class TestBackbones(BackboneContract):
    presets = PRESETS


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_config_is_short(preset):
    assert len(dataclasses.fields(preset.config)) <= 10
