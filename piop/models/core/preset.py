"""What a preset is: a network with its sizes, and the shapes it was published for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from piop.models.core.base import AxisSignature, InputSignature, Signature

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
        small: Fields of the config, and values with which the same network is cheap to test: of a
            published one narrower layers, fewer blocks and harmonics, shorter marches.
    """

    build: type[Any]
    config: Any
    signature: Signature = BURGERS
    source: str = ""
    small: Mapping[str, Any] = field(default_factory=dict, hash=False)


Presets = Mapping[str, Preset]
