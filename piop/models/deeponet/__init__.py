"""DeepONet, plain, modified and shifted."""

from __future__ import annotations

from piop.models.core.base import Preset, Presets
from piop.models.deeponet.network import (
    PAPER,
    DeepONet,
    DeepONetConfig,
    GatedDeepONet,
    ModifiedDeepONet,
    ShiftDeepONet,
    ShiftDeepONetConfig,
)

SOURCE = "Wang, Wang & Perdikaris 2021, Burgers"

PRESETS: Presets = {
    "default": Preset(DeepONet, DeepONetConfig()),
    "paper": Preset(DeepONet, PAPER, source=SOURCE),
}

MODIFIED: Presets = {
    "default": Preset(ModifiedDeepONet, DeepONetConfig()),
    "paper": Preset(ModifiedDeepONet, PAPER, source=SOURCE),
    "separate": Preset(GatedDeepONet, PAPER, source=SOURCE),
}

SHIFT: Presets = {
    "default": Preset(ShiftDeepONet, ShiftDeepONetConfig()),
    "paper": Preset(
        ShiftDeepONet,
        ShiftDeepONetConfig(width=100, layers=7, latent=100, frequencies=1, frames=100),
        source="Lanthaler et al. 2023, formula; sizes as of the preset paper of deeponet",
        small={"width": 16, "layers": 4, "latent": 12, "frames": 12},
    ),
}
"""Shift-DeepONets. The PiT paper counts 1,835,297 parameters for the inviscid Burgers' equation and
6,047,633 for the shock tube, and gives no sizes; neither count could be matched."""
