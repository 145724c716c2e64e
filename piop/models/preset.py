"""What a preset is: a network with its sizes, and the shapes it was published for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from piop.models.base import AxisSignature, InputSignature, Signature

BURGERS = Signature(
    coordinates=(AxisSignature("t", 0.0, 2.475), AxisSignature("x", 0.0, 6.283185307179586, True)),
    inputs=(InputSignature("u0", ("x",)),),
    channels=1,
    time=0,
    homogeneous=("x",),
)
"""Burgers' equation of the PIT paper, for which presets without shapes of their own are counted."""


@dataclass(frozen=True)
class Preset:
    """A network with its sizes.

    Attributes:
        build: The class of the network, a ``Backbone`` made from signature and config.
        config: A frozen dataclass with the preset's values.
        signature: The shapes of the benchmark that its parameters are counted for.
        source: The column of a paper's table, or the published script, that it is; empty for
            presets of piop's own.
    """

    build: type[Any]
    config: Any
    signature: Signature = BURGERS
    source: str = ""


Presets = Mapping[str, Preset]
