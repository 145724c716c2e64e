"""The one table of backbones by name, and how a name becomes a network.

Those of other packages (:mod:`piop.models.plugins`) are looked up beside it.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from piop.errors import UsageError
from piop.models.base import Backbone, Signature
from piop.models.plugins import announced, load_presets, owner
from piop.models.preset import Preset, Presets
from piop.models.presets import deeponet, fno, galerkin, ipot, oformer, pit, position_attention

BACKBONES: Mapping[str, Presets] = {
    "pit": pit.PRESETS,
    "position_attention": position_attention.PRESETS,
    "oformer": oformer.PRESETS,
    "ipot": ipot.PRESETS,
    "galerkin": galerkin.PRESETS,
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
        name: A key of ``BACKBONES``, or the name of an entry point of ``piop.backbones``.
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
    elif type(usual) is tuple and type(value) is tuple and value:
        for part in value:
            _require_value(key, part, usual[0])
    elif type(value) is not type(usual):
        raise UsageError(f"{key} = {value!r}: give a {KINDS.get(type(usual), 'value of its kind')}")


KINDS = {bool: "truth value", float: "number", str: "word", tuple: "tuple of numbers"}


def find_preset(name: str, preset: str | None = None) -> Preset:
    """Look a preset up, or raise UsageError naming what there is."""
    presets = find_presets(name)
    chosen = preset or "default"
    if chosen not in presets:
        raise UsageError(unknown(f"preset of backbone {name!r}", chosen, presets))
    return presets[chosen]


def find_presets(name: str) -> Presets:
    """Look a backbone up, piop's own first.

    Raises:
        UsageError: If there is none of that name, or the package that announces it is broken.

    Warns:
        RuntimeWarning: If another package announces a backbone of piop's own name.
    """
    others = announced()
    if name in BACKBONES:
        for point in others.get(name, ()):
            warnings.warn(taken(name, owner(point)), RuntimeWarning, stacklevel=3)
        return BACKBONES[name]
    if name not in others:
        raise UsageError(unknown("backbone", name, [*BACKBONES, *others]))
    return load_presets(name, others[name])


def all_backbones() -> tuple[dict[str, Presets], list[str]]:
    """Load every backbone, and say of which packages some could not be.

    Returns:
        Name → presets, piop's own first; and what is wrong with those left out.
    """
    found, faults = dict(BACKBONES), []
    for name, points in sorted(announced().items()):
        if name in BACKBONES:
            faults += [taken(name, owner(point)) for point in points]
            continue
        try:
            found[name] = load_presets(name, points)
        except UsageError as error:
            faults.append(str(error))
    return found, faults


def taken(name: str, who: str) -> str:
    """Say that another package's backbone is left out, since piop has one of its name."""
    return f"backbone {name!r} of {who} is left out: piop has one of that name; rename theirs"


def unknown(what: str, got: str, allowed: Iterable[str]) -> str:
    """Say that a name is unknown, which there are, and which was perhaps meant."""
    names = sorted(allowed)
    near = difflib.get_close_matches(got, names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{got!r} is not a {what}; one of {', '.join(names)}.{hint}"
