"""The one table of backbones by name, and how a name becomes a network."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from piop.errors import UsageError
from piop.models.base import Backbone, Signature
from piop.models.deeponet import PAPER, DeepONet, DeepONetConfig
from piop.models.modified_deeponet import GatedDeepONet, ModifiedDeepONet
from piop.models.pit import PIT, PITConfig
from piop.models.pit_paper import PaperPIT, PaperPITConfig


@dataclass(frozen=True)
class Preset:
    """A network with its sizes.

    Attributes:
        build: Signature and config → backbone.
        config: A frozen dataclass of whole numbers, with the preset's values.
    """

    build: Callable[[Signature, Any], Backbone]
    config: Any


BACKBONES: Mapping[str, Mapping[str, Preset]] = {
    "pit": {
        "default": Preset(PIT, PITConfig()),
        "paper": Preset(PaperPIT, PaperPITConfig()),
    },
    "deeponet": {
        "default": Preset(DeepONet, DeepONetConfig()),
        "paper": Preset(DeepONet, PAPER),
    },
    "modified_deeponet": {
        "default": Preset(ModifiedDeepONet, DeepONetConfig()),
        "paper": Preset(ModifiedDeepONet, PAPER),
        "separate": Preset(GatedDeepONet, PAPER),
    },
}
"""Name → preset → network. A new backbone is one file and one line here."""


def build_backbone(
    name: str, signature: Signature, preset: str | None = None, **overrides: Any
) -> Backbone:
    """Build a backbone by name.

    Args:
        name: A key of ``BACKBONES``.
        signature: The problem's shapes and scales.
        preset: One of the backbone's presets; ``"default"`` if None.
        **overrides: Fields of its config to change.

    Returns:
        The network, freshly initialised from torch's generator.

    Raises:
        UsageError: If a name, preset or field is unknown, or a value is out of range.

    Example:
        >>> from piop.models.base import AxisSignature, Signature
        >>> signature = Signature((AxisSignature("x", 0.0, 1.0),))
        >>> build_backbone("pit", signature, width=32).config.width
        32
    """
    chosen = find_preset(name, preset)
    known = {
        field.name: type(getattr(chosen.config, field.name)) for field in fields(chosen.config)
    }
    for key, value in overrides.items():
        if key not in known:
            raise UsageError(unknown(f"setting of backbone {name!r}", key, known))
        if type(value) is not int or value < 1:
            raise UsageError(f"{key} = {value!r}: give a whole number of at least 1")
    return chosen.build(signature, type(chosen.config)(**{**vars(chosen.config), **overrides}))


def find_preset(name: str, preset: str | None = None) -> Preset:
    """Look a preset up, or raise UsageError naming what there is."""
    if name not in BACKBONES:
        raise UsageError(unknown("backbone", name, BACKBONES))
    chosen = preset or "default"
    if chosen not in BACKBONES[name]:
        raise UsageError(unknown(f"preset of backbone {name!r}", chosen, BACKBONES[name]))
    return BACKBONES[name][chosen]


def unknown(what: str, got: str, allowed: Iterable[str]) -> str:
    """Say that a name is unknown, which there are, and which was perhaps meant."""
    names = sorted(allowed)
    near = difflib.get_close_matches(got, names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{got!r} is not a {what}; one of {', '.join(names)}.{hint}"
