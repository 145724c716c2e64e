"""The names that shells complete, gathered from the code; ``names.json`` keeps them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any


def name_table() -> dict[str, Any]:
    """Gather the names of settings, networks and figures.

    Returns:
        ``sections``; ``settings``, each with the first sentence of its ``meaning``, ``values``
        where they are few, and whether it is ``changeable``; ``backbones``, each with ``presets``
        and ``settings``; ``figures``.
    """
    from piop.models.registry import BACKBONES
    from piop.report.figures import OF_COMPARISON, OF_TRAINING
    from piop.training.config import SECTIONS, SETTINGS
    from piop.training.setting_declarations import attribute_meanings

    backbones = {}
    for name, presets in BACKBONES.items():
        config = presets["default"].config
        meanings = attribute_meanings(type(config))
        settings = {f.name: getattr(config, f.name) for f in fields(config)}
        backbones[name] = {
            "presets": list(presets),
            "settings": {
                key: {"values": _flags(type(value)), "meaning": brief(meanings.get(key, ""))}
                for key, value in settings.items()
            },
        }
    return {
        "sections": list(SECTIONS),
        "settings": {
            name: {
                "values": [*declared.choices] or _flags(declared.kind),
                "meaning": brief(declared.meaning),
                "changeable": declared.changeable,
            }
            for name, (_, declared) in SETTINGS.items()
        },
        "backbones": backbones,
        "figures": [*OF_COMPARISON, *OF_TRAINING],
    }


def _flags(kind: Any) -> list[str]:
    return ["true", "false"] if kind is bool else []


def brief(meaning: str) -> str:
    """Return the first clause of a meaning, in plain text.

    Example:
        >>> brief("Peak step size. Muon takes as much as SOAP.")
        'Peak step size'
    """
    first = meaning.replace("``", "").split(". ")[0].split("; ")[0].split(": ")[0]
    return first.rstrip(".")


def as_text() -> str:
    """Return the content of ``names.json``."""
    return json.dumps(name_table(), indent=1) + "\n"
