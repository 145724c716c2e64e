"""The contract of backbones: what every one owes, whatever its architecture."""

from __future__ import annotations

from piop.testing.interface import InterfaceClaims
from piop.testing.queries import QueryClaims
from piop.testing.sensors import SensorClaims
from piop.testing.weights import WeightClaims


class BackboneContract(InterfaceClaims, SensorClaims, QueryClaims, WeightClaims):
    """Tests that a backbone inherits by stating its presets.

    The first preset of each class runs on all shapes of ``piop.testing.SIGNATURES`` that it does
    not refuse, the others on their own signature alone; all with the values of ``Preset.small``, in
    float64, as they predict. What a network does not promise it states by its attributes:
    ``field``, ``times``, ``scattered``, ``unordered``, ``periodic`` and :meth:`Backbone.idle`.

    Attributes:
        presets: Name → preset, as an entry point of ``piop.backbones`` gives them.

    Example:
        >>> from piop.models.presets.deeponet import PRESETS
        >>> class TestDeepONet(BackboneContract):
        ...     presets = PRESETS
    """
