"""The contract of backbones: what every one owes, whatever its architecture."""

from __future__ import annotations

from piop.testing.interface import InterfaceClaims
from piop.testing.queries import QueryClaims
from piop.testing.sensors import SensorClaims
from piop.testing.weights import WeightClaims


class BackboneContract(InterfaceClaims, SensorClaims, QueryClaims, WeightClaims):
    """Tests that a backbone inherits by stating its presets.

    Every preset runs on its own signature; the first of each class also on the shapes of
    ``piop.testing.SIGNATURES`` that it does not refuse, on three of them where it has a ``source``.
    All run with the values of ``Preset.small``, in float64, as they predict. What a network does
    not promise it states by its attributes: ``field``, ``end_only``, ``scattered``,
    ``unordered``, ``periodic`` and :meth:`Backbone.unused_parameters`.

    Attributes:
        presets: Name → preset, as an entry point of ``piop.backbones`` gives them.

    Example:
        >>> from piop.models.deeponet.presets import PRESETS
        >>> class TestDeepONet(BackboneContract):
        ...     presets = PRESETS
    """
