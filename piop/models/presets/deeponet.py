"""DeepONet, plain and modified."""

from __future__ import annotations

from piop.models.deeponet import PAPER, DeepONet, DeepONetConfig
from piop.models.modified_deeponet import GatedDeepONet, ModifiedDeepONet
from piop.models.preset import Preset, Presets

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
