"""Units as people write them, such as ``m^2/s``, ``m²/s`` or ``m2 s-1``, and their dimensions."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from math import log10
from typing import TYPE_CHECKING, Any

from piop.errors import did_you_mean
from piop.expression import Refusal
from piop.expression.dimensions import SCALE, Dimension, product

if TYPE_CHECKING:
    from pint import UnitRegistry

MAX_LENGTH = 80  # characters
NO_UNIT = ("", "-", "1")
"""Labels of what has no dimension, besides those that are units, such as ``rad`` and ``%``."""

_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_EXPONENT = re.compile(
    r"\s*\^\s*(?:[-+]?\d\d?(?:\.\d{1,3})?|\(\s*[-+]?\d\d?\s*/\s*\d\d?\s*\))(?![\d.]|\s*\^)"
)
_NAMES = re.compile(r"(?:1\s*/)?(?:[^\W\d]|[°%‰*/()\s])+")
_WITH_NUMBER = re.compile(
    r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[\s*]*([^\W\d_].*|[°%].*)"
)


@cache
def _registry() -> UnitRegistry:
    """The registry of units; loaded late, as most of its quarter of a second is for its table."""
    from pint import UnitRegistry

    return UnitRegistry()


def dimension_of(label: str) -> Dimension:
    """Return the dimension of a unit.

    Raises:
        Refusal: If it is not known, or not written as a unit is.
    """
    if label.strip() in NO_UNIT:
        return {}
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda raised: "^" + raised[0].translate(_RAISED), label)
    text = re.sub(r"[·⋅]|\.(?!\d)", "*", text).replace("**", "^")
    text = re.sub(r"(?<=[^\W\d_])(?=[-+]?\d+\b)", "^", text)  # m2 s-1
    # What is left has no number to raise, which the registry would compute whatever its size.
    if len(label) > MAX_LENGTH or not _NAMES.fullmatch(_EXPONENT.sub("", text)):
        message = f"'{label[:MAX_LENGTH]}' is not a unit, such as m^2/s or mol/m^3"
        raise Refusal(message, 0, "The numbers in a unit are exponents.")
    try:
        unit = _registry().parse_units(text)
        size: Any = _registry().get_base_units(unit)[0]
        powers: Any = {**unit.dimensionality, SCALE: round(log10(size), 9)}
        found = {key: Fraction(str(n)).limit_denominator(10**9) for key, n in powers.items()}
    except Exception:  # of many kinds: of its table, its tokenizer, its arithmetic
        raise Refusal(f"'{label}' is not a known unit", 0, _suggestion(text)) from None
    return product((found, 1))


def _suggestion(text: str) -> str:
    known = dir(_registry())
    words = (word for word in re.findall(r"[^\W\d]+", text) if word not in known)
    proposed = (did_you_mean(word, known, 0.75) for word in words)
    return next(filter(None, proposed), "Leave out the unit of what is counted or has none.")


def split_unit(text: str) -> tuple[str, str] | None:
    """Return the number and the unit of a text such as ``0.01 m^2/s``; None of any other."""
    match = _WITH_NUMBER.fullmatch(text)
    if match is None or re.search(r"\bpi\b", match[2]):
        return None
    try:
        dimension_of(match[2])
    except Refusal:
        return None
    return match[1], match[2]
