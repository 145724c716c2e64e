"""The one table of backbones by name, and how a name becomes a network."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from piop.errors import UsageError
from piop.models.base import Backbone, Signature
from piop.models.preset import Preset, Presets
from piop.models.presets import deeponet, fno, ipot, oformer, pit, position_attention

BACKBONES: Mapping[str, Presets] = {
    "pit": pit.PRESETS,
    "position_attention": position_attention.PRESETS,
    "ipot": ipot.PRESETS,
    "oformer": oformer.PRESETS,
    "deeponet": deeponet.PRESETS,
    "modified_deeponet": deeponet.MODIFIED,
    "shift_deeponet": deeponet.SHIFT,
    "fno": fno.PRESETS,
}
"""Name → preset → network. A new backbone is one file, its presets, and one line here."""


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
    known = [field.name for field in fields(chosen.config)]
    for key, value in overrides.items():
        if key not in known:
            raise UsageError(unknown(f"setting of backbone {name!r}", key, known))
        _require_value(key, value, getattr(chosen.config, key))
    config = type(chosen.config)(**{**vars(chosen.config), **overrides})
    reason = refusal(chosen, signature, config)
    if reason:
        raise UsageError(f"backbone {name!r} cannot serve this problem: {reason}")
    return chosen.build(signature, config)


def refusal(preset: Preset, signature: Signature, config: Any = None) -> str | None:
    """Say why a preset cannot serve a problem; None where it can.

    Args:
        preset: The network.
        signature: The problem's shapes and scales.
        config: Its sizes and choices where they differ from the preset's.
    """
    return preset.build.refusal(signature, preset.config if config is None else config)


def _require_value(key: str, value: Any, usual: Any) -> None:
    """Refuse a value of another type than the preset's, or a number below its least."""
    if type(usual) is int:
        least = min(usual, 1)
        if type(value) is not int or value < least:
            raise UsageError(f"{key} = {value!r}: give a whole number of at least {least}")
    elif type(value) is not type(usual):
        raise UsageError(f"{key} = {value!r}: give a {KINDS.get(type(usual), 'value of its kind')}")


KINDS = {bool: "truth value", float: "number", str: "word"}


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
