from __future__ import annotations

import pytest
import torch

from piop.errors import UsageError
from piop.models import BACKBONES, build_backbone, find_preset

from .cases import SIGNATURES

SIGNATURE = SIGNATURES["evolution"]


def test_default_is_the_preset_when_none_is_named():
    assert find_preset("pit") is BACKBONES["pit"]["default"]
    assert find_preset("pit", "paper") is BACKBONES["pit"]["paper"]


def test_overrides_change_the_network():
    small = build_backbone("pit", SIGNATURE, width=16, blocks=1)
    assert small.config.width == 16
    assert len(small.blocks) == 1


@pytest.mark.parametrize(
    ("name", "preset", "overrides", "message"),
    [
        (
            "pitt",
            None,
            {},
            f"one of {', '.join(sorted(BACKBONES))}. Did you mean 'pit'?",
        ),
        ("pit", "papr", {}, "one of default, paper. Did you mean 'paper'?"),
        ("pit", None, {"widht": 3}, "Did you mean 'width'?"),
        ("pit", "paper", {"heads": 3}, "'heads' is not a setting of backbone 'pit'"),
        ("pit", None, {"width": "64"}, "width = '64': give a whole number of at least 1"),
        ("pit", None, {"heads": 0}, "heads = 0: give a whole number of at least 1"),
        ("pit", None, {"blocks": True}, "blocks = True: give a whole number of at least 1"),
        ("pit", None, {"harmonics": 2}, "harmonics = 2"),
        ("pit", "paper", {"encoding": 7}, "encoding = 7"),
        (
            "position_attention",
            "paper_darcy",
            {"latent": 16},
            "latent = 16: give a tuple of numbers",
        ),
        (
            "position_attention",
            "paper_darcy",
            {"latent": (8, 0)},
            "latent = 0: give a whole number",
        ),
        ("oformer", "paper_burgers", {"rates": ()}, "rates = (): give a tuple of numbers"),
        ("ipot", None, {"points": (24,)}, "points = (24,): give three numbers"),
    ],
)
def test_unknown_names_and_bad_values_are_refused(name, preset, overrides, message):
    with pytest.raises(UsageError) as error:
        build_backbone(name, SIGNATURE, preset, **overrides)
    assert message in str(error.value)


def test_same_seed_same_network():
    networks = []
    for _ in range(2):
        torch.manual_seed(7)
        networks.append(build_backbone("pit", SIGNATURE).state_dict())
    assert all(torch.equal(networks[0][k], networks[1][k]) for k in networks[0])
