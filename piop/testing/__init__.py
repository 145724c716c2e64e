"""The contract of backbones, as a suite of tests that any package can inherit.

Nothing here is needed to use piop, and nothing here imports pytest before it collects tests.
"""

from piop.testing.cases import SIGNATURES, Case
from piop.testing.contract import BackboneContract
from piop.testing.samples import axes_for, points_for, queries_for, samples_for

__all__ = [
    "SIGNATURES",
    "BackboneContract",
    "Case",
    "axes_for",
    "points_for",
    "queries_for",
    "samples_for",
]
