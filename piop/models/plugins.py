"""Backbones of other packages, announced as entry points of the group ``piop.backbones``.

Names are read from the metadata of what is installed, at each lookup; a package is imported when
one of its backbones is asked for, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from piop.errors import UsageError
from piop.models.base import Backbone
from piop.models.preset import Preset, Presets

GROUP = "piop.backbones"
"""An entry point ``name = module:attribute`` leads to a mapping of preset names to presets."""


def announced() -> dict[str, tuple[EntryPoint, ...]]:
    """Read which backbones are announced, by name; imports nothing of theirs."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def owner(point: EntryPoint) -> str:
    """Name the distribution that announces a backbone, with its version."""
    made = point.dist
    return "an unnamed distribution" if made is None else f"{made.name} {made.version}"


def load_presets(name: str, points: Sequence[EntryPoint]) -> Presets:
    """Import the presets of an announced backbone.

    Args:
        name: Its name.
        points: Those that announce it.

    Raises:
        UsageError: If several distributions announce it, its module cannot be imported, or what it
            leads to is no table of presets.
    """
    if len(points) > 1:
        raise UsageError(
            f"backbone {name!r} is announced by {' and by '.join(sorted(map(owner, points)))}; "
            "uninstall all but one"
        )
    point = points[0]
    told = f"backbone {name!r} of {owner(point)}"
    try:
        found = point.load()
    except Exception as error:  # whatever another package's import raises
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{told} cannot be imported from {point.value!r} ({reason}); update or uninstall it"
        ) from error
    fault = _fault(found)
    if fault:
        raise UsageError(f"{told}: {point.value!r} {fault}; see docs/backbones.md")
    return found


def _fault(found: Any) -> str | None:
    """Say what keeps an object from being a table of presets."""
    if not isinstance(found, Mapping):
        return f"is a {type(found).__name__}, not a mapping of names to presets"
    for name, preset in found.items():
        if not isinstance(preset, Preset):
            return f"holds a {type(preset).__name__} as {name!r}, not a Preset"
        if not (isinstance(preset.build, type) and issubclass(preset.build, Backbone)):
            return f"has a preset {name!r} that builds no Backbone"
    return None if "default" in found else "has no preset 'default'"
