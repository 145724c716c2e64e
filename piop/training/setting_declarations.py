"""Declaration of settings: each field of a config states its type, range, default and use once.

Conversion from the text of a command line, error messages, ``piop settings`` and the page
``docs/settings.md`` are derived from the declarations.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from piop.errors import UsageError, excerpt
from piop.models.core.base import POINT_FIELD, FieldKind

if TYPE_CHECKING:
    from piop.training.config import TrainingConfig


LARGEST = 10**6
"""Largest whole number of a setting: more than any needs."""
TIME_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Range:
    """Allowed values of a number.

    Attributes:
        text: The range in words, as in "must be above zero".
        contains: Whether a number is allowed.
    """

    text: str
    contains: Callable[[float], bool]


NOT_NEGATIVE = Range("at least 0", lambda value: value >= 0)
POSITIVE = Range("above zero", lambda value: value > 0)
UP_TO_ONE = Range("above zero and at most 1", lambda value: 0 < value <= 1)
FRACTION = Range("at least 0 and below 1", lambda value: 0 <= value < 1)


@dataclass(frozen=True)
class Circumstances:
    """The run in which a setting is given.

    Attributes:
        config: The config of the run.
        parts: The parts that the loss has.
        field: How the network is evaluated: pointwise, on a grid, or in steps.
        spatial: Whether the problem has axes of space.
        times: Whether it has a time axis, and the network is evaluated at more than its end.
    """

    config: TrainingConfig
    parts: Collection[str]
    field: FieldKind = POINT_FIELD
    spatial: bool = True
    times: bool = True


@dataclass(frozen=True)
class Applies:
    """A condition under which a setting has an effect.

    Attributes:
        text: The condition in words, as in "it belongs to optimiser=soap".
        holds: Whether the condition holds in a run.
    """

    text: str
    holds: Callable[[Circumstances], bool]


@dataclass(frozen=True)
class Setting:
    """One setting, as declared by a field of a config.

    Attributes:
        name: Key of the setting.
        kind: Type of its values.
        default: Default value.
        meaning: Meaning and unit, from the docstring of the config.
        range: Allowed numbers.
        applies: Conditions under which it has an effect; all of them must hold.
        changeable: Whether a resumed run may change it: neither the network nor the meaning of what
            is saved depends on it.
        names: Allowed names where the type does not list them.
    """

    name: str
    kind: Any
    default: Any
    meaning: str
    range: Range = NOT_NEGATIVE
    applies: tuple[Applies, ...] = ()
    changeable: bool = False
    names: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """Allowed names; empty where the setting is no choice between names."""
        return self.names or (get_args(self.kind) if get_origin(self.kind) is Literal else ())

    @property
    def allowed(self) -> str:
        """Allowed values in words."""
        words = {bool: "true or false", int: f"whole number {self.range.text}"}
        return " | ".join(self.choices) or words.get(self.kind, f"number {self.range.text}")

    def parse(self, value: Any) -> Any:
        """Convert a value, perhaps text, to the type of the setting, and check its range.

        Raises:
            UsageError: Naming the setting, the value, and what is allowed.
        """
        if self.choices:
            if not (isinstance(value, str) and value in self.choices):
                raise UsageError(
                    f"{self.name}: {excerpt(value)} is not one of {', '.join(self.choices)}"
                )
            return value
        found = convert(self.name, value, self.kind)
        if self.kind is not bool and not self.range.contains(found):
            raise UsageError(f"{self.name}: {excerpt(found)} must be {self.range.text}")
        return found


def setting(
    default: Any,
    range: Range = NOT_NEGATIVE,
    applies: tuple[Applies, ...] = (),
    *,
    changeable: bool = False,
    names: Iterable[str] = (),
) -> Any:
    """Declare a field of a config as a setting; its meaning stands in the config's docstring.

    Args:
        default: Default value.
        range: Allowed numbers.
        applies: Conditions under which the setting has an effect.
        changeable: Whether a resumed run may change it.
        names: Allowed names where the type of the field does not list them.
    """
    own = {"range": range, "applies": applies, "changeable": changeable, "names": tuple(names)}
    return field(default=default, metadata={"setting": own})


def settings_of(section: type) -> list[Setting]:
    """List the settings that a config declares, in the order of its fields."""
    kinds, meanings = get_type_hints(section), attribute_meanings(section)
    return [
        Setting(f.name, kinds[f.name], f.default, meanings[f.name], **f.metadata["setting"])
        for f in fields(section)
        if "setting" in f.metadata
    ]


def attribute_meanings(section: type) -> dict[str, str]:
    """Read the meaning of each attribute from the ``Attributes:`` of a class's docstring."""
    _, _, text = (inspect.getdoc(section) or "").partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w|^\w|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the setting whose name is nearest; None where none is near."""
    return next(iter(difflib.get_close_matches(key, known, 1, 0.7)), None)


def convert(key: str, value: Any, kind: Any) -> Any:
    """Convert a value, perhaps text, to the type of its key.

    Raises:
        UsageError: If it is not of that type.
    """
    if kind is bool:
        words = {"true": True, "false": False, "yes": True, "no": False}
        if (found := words.get(str(value).lower())) is None:
            raise UsageError(f"{key}: {excerpt(value)} is neither true nor false")
        return found
    if kind in (int, float):
        return _number(key, value, kind)
    if get_origin(kind) is tuple:
        return _numbers(key, value, get_args(kind)[0])
    if kind is str and not isinstance(value, str):
        raise UsageError(f"{key}: {excerpt(value)} is not text")
    return value


def kind_of(value: Any) -> Any:
    """Return the type of a backbone's setting, given the value of its preset."""
    if isinstance(value, tuple):
        return tuple[type(value[0]), ...]
    return Any if value is None else type(value)


def _numbers(key: str, value: Any, kind: type) -> tuple[Any, ...]:
    try:
        parts = tuple(value.split(",") if isinstance(value, str) else value)
    except TypeError:
        parts = ()
    if not parts:
        raise UsageError(f"{key}: {excerpt(value)} is not a list of numbers, such as 16,16")
    return tuple(_number(key, part, kind) for part in parts)


def _number(key: str, value: Any, kind: type) -> Any:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or (kind is int and number != int(number)):
        raise UsageError(
            f"{key}: {excerpt(value)} is not a {'whole ' if kind is int else ''}number"
        )
    if kind is int and abs(number) > LARGEST:
        raise UsageError(f"{key}: {excerpt(value)} is more than {LARGEST}, the most of any setting")
    return kind(number)


def parse_time(text: str | float) -> float:
    """Convert ``"90s"``, ``"5m"``, ``"1.5h"`` or a number of seconds to seconds.

    Raises:
        UsageError: If it is none of these.

    Example:
        >>> parse_time("5m")
        300.0
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|m|min|h)?\s*", str(text))
    if match is None or not 0 < float(match[1]) < math.inf:
        raise UsageError(f"time: {excerpt(text)} is not a length of time such as 90s, 5m or 1h")
    return float(match[1]) * TIME_UNITS[match[2] or ""]
