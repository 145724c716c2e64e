"""Weights of the squared residual: which points, times, functions and terms count how much.

Each weight is a factor without gradient and without unit; they compose by multiplication. Fixed
weights are functions of the batch alone (:mod:`piop.training.loss.objective`); adaptive ones keep a
state between steps (:mod:`base`).
"""

from piop.training.loss.weighting.base import Outcome, Weighting, Weightings

__all__ = ["Outcome", "Weighting", "Weightings"]
