"""Setting keys of a config by name: which there are, and what each may be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

from piop.errors import UsageError
from piop.training.config.run import SECTIONS, TrainingConfig
from piop.training.config.values import convert

OWN_ARGUMENTS = {"device", "precision", "compile", "threads", "default_threads", "seed"}
POSITIVE = {"functions", "queries", "boundary", "data_functions", "data_queries", "bins",
            "space_bins", "weight_every", "candidates", "learning_rate",
            "precondition", "time_order"}  # fmt: skip
CHANGEABLE = {"functions", "queries", "boundary", "data_functions", "data_queries",
              "learning_rate", "clip", "checkpoint"}  # fmt: skip
"""What a resume may change: neither the network nor the meaning of what is saved depends on it."""
UP_TO_ONE = {"horizon", "horizon_until"}
SHARES = {"warmup", "final", "average", "lbfgs", "memory", "attention_decay"}


def apply_settings(
    config: TrainingConfig, settings: Mapping[str, Any], backbone_keys: Mapping[str, Any]
) -> TrainingConfig:
    """Set keys of the config, checking name, type and range of each.

    Args:
        config: What the settings start from.
        settings: Key → value; a value may be text, as it comes from a command line.
        backbone_keys: The keys of the chosen backbone and their defaults, which give the types.

    Raises:
        UsageError: Naming the key, the value, and what is allowed.

    Example:
        >>> from piop.training.config import BudgetConfig
        >>> start = TrainingConfig(BudgetConfig(steps=10))
        >>> apply_settings(start, {"learning_rate": "1e-3"}, {}).optimiser.learning_rate
        0.001
    """
    changes: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    backbone = dict(config.backbone_settings)
    known = {f.name: name for name, cls in SECTIONS.items() for f in fields(cls)}
    known = {key: name for key, name in known.items() if key not in OWN_ARGUMENTS}
    for key, value in settings.items():
        if key in known:
            annotation = get_type_hints(SECTIONS[known[key]])[key]
            changes[known[key]][key] = _in_range(key, convert(key, value, annotation))
        elif key == "preset":
            backbone[key] = convert(key, value, str)
        elif key in backbone_keys:
            backbone[key] = convert(key, value, _kind(backbone_keys[key]))
        else:
            raise UsageError(unknown_key(key, [*known, "preset", *backbone_keys]))
    sections = {name: replace(getattr(config, name), **changes[name]) for name in SECTIONS}
    return replace(config, backbone_settings=backbone, **sections)


def change_settings(config: TrainingConfig, settings: Mapping[str, Any]) -> TrainingConfig:
    """Set keys that may change in the middle of a run.

    Raises:
        UsageError: For any other key, or a value that is not allowed.

    Example:
        >>> from piop.training.config import BudgetConfig
        >>> start = TrainingConfig(BudgetConfig(steps=10))
        >>> change_settings(start, {"functions": "4"}).points.functions
        4
    """
    for key in settings:
        if key not in CHANGEABLE:
            raise UsageError(
                f"{key}: cannot change in the middle of a run; one of "
                f"{', '.join(sorted(CHANGEABLE))}. For others start a new run from the weights of "
                f"this one: piop solve --from RUN"
            )
    return apply_settings(config, settings, {})


def unknown_key(key: str, known: list[str]) -> str:
    """Say that a setting does not exist, with the nearest name or the list of all."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]!r}?" if near else "one of " + ", ".join(sorted(known))
    return f"{key!r} is not a setting: {hint}"


def _kind(usual: Any) -> Any:
    """Type of a backbone's setting, by its preset's value."""
    if isinstance(usual, tuple):
        return tuple[type(usual[0]), ...]
    return Any if usual is None else type(usual)


def _in_range(key: str, value: Any) -> Any:
    if key in POSITIVE and not value > 0:
        raise UsageError(f"{key}: {value!r} must be above zero")
    if key in UP_TO_ONE and not 0 < value <= 1:
        raise UsageError(f"{key}: {value!r} must be above zero and at most 1")
    if key in SHARES and not 0 <= value < 1:
        raise UsageError(f"{key}: {value!r} must be at least 0 and below 1")
    if isinstance(value, int | float) and value < 0:
        raise UsageError(f"{key}: {value!r} must not be negative")
    return value
