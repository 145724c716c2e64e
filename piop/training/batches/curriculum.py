"""A time curriculum: the part of the time axis grows in which points lie, or steps count."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piop.problem import Problem
from piop.training.config import SamplingConfig


def horizon(share: float, config: SamplingConfig) -> float:
    """Give the part of the time axis in use, h + (1 − h)·min(s/s₁, 1), in (0, 1].

    Args:
        share: s, share of the budget that is spent.
        config: h, where it begins, and s₁, when all of it is in use.

    Source: Krishnapriyan, Gholami, Zhe, Kirby & Mahoney 2021 (2109.01050), sequence-to-sequence
        learning: a problem in time is learnt one piece after the other. They train each piece from
        the end of the last; here one operator keeps all times before the horizon in its batches.
    """
    grown = min(share / config.horizon_until, 1.0)
    return config.horizon + (1 - config.horizon) * grown


def within_horizon(problem: Problem, queries: Tensor, part: float) -> Tensor:
    """Bring the times of ``queries [B, N, D]`` into the first part of the axis, in proportion."""
    time = problem.time
    if time is None or part == 1:
        return queries
    shrunk = queries.clone()
    shrunk[..., 0] = time.low + part * (queries[..., 0] - time.low)
    return shrunk


def steps_within(steps: int, part: float) -> Tensor:
    """Weigh the steps of a march: those that begin within the horizon alike, later ones not at all.

    A step of a march depends on none after it, so these weights give the gradients of a rollout
    that ends at the horizon, with a batch whose shapes stay.

    Args:
        steps: K, over the whole time axis.
        part: The part of it in use, in (0, 1].

    Returns:
        ``[K]`` float64, of mean one.

    Source: the curriculum of Li, Meidani & Barati Farimani 2023 (2205.13671), appendix A, which
        truncates the rollouts of the first part of training to about half.

    Example:
        >>> steps_within(4, 0.5).tolist()
        [2.0, 2.0, 0.0, 0.0]
    """
    count = max(1, math.ceil(part * steps - 1e-9))  # rounding must not add a step
    within = torch.arange(steps) < count
    return within.double() * (steps / count)
