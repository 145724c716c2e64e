"""Backbones: networks from inputs and queries to dimensionless outputs, independent of the PDE."""

from piop.models.core.base import AxisSignature, Backbone, InputSignature, Signature
from piop.models.registry import BACKBONES, build_backbone, find_preset

__all__ = [
    "BACKBONES",
    "AxisSignature",
    "Backbone",
    "InputSignature",
    "Signature",
    "build_backbone",
    "find_preset",
]
