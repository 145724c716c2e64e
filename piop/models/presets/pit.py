"""PIT: the default network, and the paper's."""

from __future__ import annotations

from piop.models.pit import PIT, PITConfig
from piop.models.pit_paper import PaperPIT, PaperPITConfig
from piop.models.preset import Preset, Presets

PRESETS: Presets = {
    "default": Preset(PIT, PITConfig()),
    "paper": Preset(
        PaperPIT,
        PaperPITConfig(),
        source="Dos Santos et al. 2023, Burgers",
        small={"width": 24, "blocks": 2},
    ),
}
