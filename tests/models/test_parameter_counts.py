"""Every published network has the number of parameters that its paper or its code states."""

from __future__ import annotations

import pytest

from piop.models import BACKBONES

COUNTS = [
    # Chen & Wu 2024, table 9
    ("position_attention", "paper_burgers", 95_503),
    ("position_attention", "paper_sod", 95_631),
    ("position_attention", "paper_darcy", 313_613),
    ("position_attention", "paper_vorticity", 1_252_103),
    ("position_attention", "paper_elasticity", 6_586_929),
    ("position_attention", "paper_naca", 1_250_061),
    ("position_attention", "code_burgers", 95_503),
    ("position_attention", "code_sod", 95_631),
    ("position_attention", "code_darcy", 313_613),
    ("position_attention", "code_vorticity", 1_252_103),
    ("position_attention", "code_elasticity", 6_586_929),
    ("position_attention", "code_naca", 1_250_061),
]


@pytest.mark.parametrize(("name", "preset", "count"), COUNTS)
def test_a_preset_has_the_published_number_of_parameters(name, preset, count):
    chosen = BACKBONES[name][preset]
    model = chosen.build(chosen.signature, chosen.config)
    assert sum(p.numel() for p in model.parameters()) == count
