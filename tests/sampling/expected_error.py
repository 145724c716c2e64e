"""The error to expect of an interpolant, from the variance that the sensors leave."""

from dataclasses import replace

import torch

from piop.sampling import Draws
from piop.sampling.collocation import box_points
from piop.sampling.distributions import input_sampler
from piop.sampling.kriging import _solve, covariance

QUADRATURE = 128  # points at which the expected error is averaged


def posterior_variance(prior, points, at):
    """Variance left at ``at [1, Q, d]`` by values at ``points [B, M, d]``: ``[B, Q]``."""
    cross = covariance(prior, points, at)  # [B, M, Q]
    real = torch.ones_like(points[..., 0])
    known = (cross * _solve(covariance(prior, points, points), cross, real)).sum(1)
    return (variance_at(prior, at) - known).clamp_min(0.0)


def variance_at(prior, at):
    """Variance of the values at ``at [1, Q, d]``: ``[1, Q]``."""
    spread = replace(prior.function(prior.variance[None]), offset=torch.zeros(1))
    squares = [basis.table(x) ** 2 for basis, x in zip(spread.bases, at.unbind(-1), strict=True)]
    values = spread.coefficients.expand(1, at.shape[1], *prior.variance.shape)
    for table in squares:
        values = torch.einsum("bnk,bnk...->bn...", table, values)
    return values


def expected_reconstruction_error(problem, item, points):
    """Relative L2 error to expect of :func:`reconstruct` with sensors at these points.

    The root of the mean variance that remains, over that of the mean square of the function. It
    depends on where the sensors are, not on what they see.

    Args:
        problem: Whose input it is.
        item: An input with a law, or a smooth expression, of at least one coordinate.
        points: Sensors ``[B, M, d]``.

    Returns:
        ``[B]`` float64, 0 where the sensors determine the function.

    """
    sampler = input_sampler(problem, item)
    axes = sampler.axes
    points = points.double()
    prior = sampler.prior()
    draws = Draws(0, 0, torch.zeros(1, dtype=torch.int64))
    at = box_points(draws, "expected", [(a.low, a.high) for a in axes], QUADRATURE, "sobol")
    mean = prior.function(prior.mean[None])(at)
    square = (variance_at(prior, at) + mean**2).mean()
    return (posterior_variance(prior, points, at).mean(1) / square).sqrt()
