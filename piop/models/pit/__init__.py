"""PIT, the physics-informed transformer: the default network, and the paper's."""

from __future__ import annotations

from piop.models.core.base import Preset, Presets
from piop.models.pit.network import PIT, PITConfig
from piop.models.pit.published import PaperPIT, PaperPITConfig

PRESETS: Presets = {
    "default": Preset(PIT, PITConfig()),
    "paper": Preset(
        PaperPIT,
        PaperPITConfig(),
        source="Dos Santos et al. 2023, Burgers",
        small={"width": 24, "blocks": 2},
    ),
}
