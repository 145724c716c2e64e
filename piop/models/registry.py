"""The table of backbones by name, with those that other packages announce as entry points."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

from piop.errors import UsageError, did_you_mean
from piop.models import deeponet, fno, galerkin, ipot, oformer, pit, position_attention
from piop.models.core.base import (
    GRID_FIELD,
    POINT_FIELD,
    ROLLOUT_FIELD,
    Backbone,
    Preset,
    Presets,
    Signature,
)

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
        >>> from piop.models.core.base import AxisSignature, Signature
        >>> signature = Signature((AxisSignature("x", 0.0, 1.0),))
        >>> build_backbone("pit", signature, width=32).config.width
        32
    """
    return build_preset(name, find_preset(name, preset), signature, **overrides)


def build_preset(name: str, chosen: Preset, signature: Signature, **overrides: Any) -> Backbone:
    """Build the network of a preset, called by a name in messages; see :func:`build_backbone`."""
    return chosen.build(signature, sized_config(name, chosen, signature, **overrides))


def sized_config(name: str, chosen: Preset, signature: Signature, **overrides: Any) -> Any:
    """Return the config of a preset with other sizes.

    Raises:
        UsageError: If a size is unknown or out of range, or cannot serve the problem.
    """
    known = vars(chosen.config)
    for key, value in overrides.items():
        if key not in known:
            raise UsageError(unknown(f"setting of backbone {name!r}", key, known))
        _require_value(key, value, known[key])
    config = replace(chosen.config, **overrides)
    reason = refusal(chosen, signature, config)
    if reason:
        raise UsageError(f"backbone {name!r} cannot serve this problem: {reason}")
    return config


def refusal(preset: Preset, signature: Signature, config: Any = None) -> str | None:
    """Return the reason why a preset cannot serve a problem; None if it can.

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
    elif type(value) is not type(usual) or value == ():
        raise UsageError(f"{key} = {value!r}: give a {KINDS.get(type(usual), 'value of its kind')}")


KINDS = {bool: "truth value", float: "number", str: "word", tuple: "tuple of numbers"}


def find_preset(name: str, preset: str | None = None) -> Preset:
    """Look a preset up, or raise UsageError naming what there is."""
    presets = find_presets(name)
    chosen = preset or "default"
    if chosen not in presets:
        raise UsageError(unknown(f"preset of backbone {name!r}", chosen, presets))
    return presets[chosen]


def preset_of_class(given: Any) -> Preset:
    """Take a preset as it is, or make one of a class.

    Args:
        given: A preset; or a class derived from Backbone whose ``__init__(signature, config: C)``
            names the dataclass of its sizes, or needs no config.

    Raises:
        UsageError: For anything else, such as a network that is built already.
    """
    if isinstance(given, type) and issubclass(given, Backbone):
        given = Preset(given, _usual_sizes(given))
    if not isinstance(given, Preset):
        name = given.__name__ if isinstance(given, type) else f"an object of {type(given).__name__}"
        raise UsageError(
            f"backbone: {name} is neither a name nor a class derived from piop.Backbone, from "
            f"which a network is built for the shapes of the problem; see docs/backbones.md"
        )
    if fault := _table_fault({"default": given}):
        raise UsageError(f"backbone: {fault}; see docs/backbones.md")
    return given


def _usual_sizes(network: type[Backbone]) -> Any:
    """Make the config of a class of networks with the defaults of its fields."""
    with suppress(NameError):  # an annotation that only the class's function knows
        kind = get_type_hints(network.__init__).get("config")
        if isinstance(kind, type) and is_dataclass(kind):
            return kind()
    parameter = inspect.signature(network).parameters.get("config")
    if parameter is not None and parameter.default is None:
        return NoSizes()
    raise UsageError(
        f"backbone: the sizes of {network.__name__} are unknown: annotate "
        f"__init__(self, signature, config: SIZES), or give piop.models.core.base.Preset"
        f"({network.__name__}, SIZES())"
    )


@dataclass(frozen=True)
class NoSizes:
    """The config of a network that has none."""


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
            warnings.warn(name_clash(name, distribution(point)), RuntimeWarning, stacklevel=3)
        return BACKBONES[name]
    if name not in others:
        raise UsageError(unknown("backbone", name, [*BACKBONES, *others]))
    return load_presets(name, others[name])


def all_backbones() -> tuple[dict[str, Presets], list[str]]:
    """Load every backbone, with the faults of packages whose backbones could not be loaded.

    Returns:
        Name → presets, piop's own first; and messages about those left out.
    """
    found, faults = dict(BACKBONES), []
    for name, points in sorted(announced().items()):
        if name in BACKBONES:
            faults += [name_clash(name, distribution(point)) for point in points]
            continue
        try:
            found[name] = load_presets(name, points)
        except UsageError as error:
            faults.append(str(error))
    return found, faults


def name_clash(name: str, owner: str) -> str:
    """Describe why another package's backbone is left out: piop has one of its name."""
    return f"backbone {name!r} of {owner} is left out: piop has one of that name; rename theirs"


def unknown(what: str, got: str, allowed: Iterable[str]) -> str:
    """Describe an unknown name: the allowed ones, and the closest of them."""
    names = sorted(allowed)
    hint = did_you_mean(got, names)
    return f"{got!r} is not a {what}; one of {', '.join(names)}. {hint}".rstrip()


GROUP = "piop.backbones"
"""An entry point ``name = module:attribute`` leads to a mapping of preset names to presets."""


def announced() -> dict[str, tuple[EntryPoint, ...]]:
    """Read which backbones are announced, by name; imports nothing of theirs."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def distribution(point: EntryPoint) -> str:
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
        owners = sorted(map(distribution, points))
        raise UsageError(
            f"backbone {name!r} is announced by {' and by '.join(owners)}; uninstall all but one"
        )
    point = points[0]
    subject = f"backbone {name!r} of {distribution(point)}"
    try:
        found = point.load()
    except Exception as error:  # whatever another package's import raises
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{subject} cannot be imported from {point.value!r} ({reason}); update or uninstall it"
        ) from error
    fault = _table_fault(found)
    if fault:
        raise UsageError(f"{subject}: {point.value!r} {fault}; see docs/backbones.md")
    return found


def _table_fault(found: Any) -> str | None:
    """Return the reason why an object is no table of presets; None if it is one."""
    if not isinstance(found, Mapping):
        return f"is a {type(found).__name__}, not a mapping of names to presets"
    for name, preset in found.items():
        if not isinstance(preset, Preset):
            return f"holds a {type(preset).__name__} as {name!r}, not a Preset"
        if not (isinstance(preset.build, type) and issubclass(preset.build, Backbone)):
            return f"has a preset {name!r} that builds no Backbone"
        if preset.build.field not in (POINT_FIELD, GRID_FIELD, ROLLOUT_FIELD):
            kinds = "POINT_FIELD, GRID_FIELD or ROLLOUT_FIELD of piop.models.core.base"
            return f"has a preset {name!r} with field = {preset.build.field!r}, not {kinds}"
    return None if "default" in found else "has no preset 'default'"
