"""Weights of the squared residual: which points, times, functions and terms count how much.

Each weight is a factor without gradient and without unit; they compose by multiplication. Fixed
weights are functions of what a step sees (:mod:`fixed`); adaptive ones keep a state between steps
(:mod:`base`).
"""

from piop.training.weighting.base import Outcome, Weighting, Weightings
from piop.training.weighting.fixed import front_weight, relative_weight

__all__ = ["Outcome", "Weighting", "Weightings", "front_weight", "relative_weight"]
