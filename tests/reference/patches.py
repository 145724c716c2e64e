"""A reference on a patch of the plane, made a field that a compiled residual can take."""

import math

import torch

from piop.residual import compile_residual

PLACES = 50
"""At which a residual is evaluated, in the middle of the patch."""


def polynomials(points, degree):
    """Monomials of total degree up to ``degree`` at ``points [..., 2]``."""
    x, y = points[..., 0], points[..., 1]
    return torch.stack([x**i * y**j for i in range(degree + 1) for j in range(degree + 1 - i)], -1)


def residual_over_bent(problem, functions, points, values, centre, radius, degree):
    """Residual of the polynomial through values on a disk, over that of the same bent by a tenth.

    Args:
        problem: A steady problem in the plane.
        functions: Its inputs, one sample.
        points: Where the reference is known ``[P, 2]``.
        values: Channel → values there ``[P]``.
        centre: Of the disk.
        radius: Of the disk; points outside are left out.
        degree: Of the polynomial, fitted by least squares.

    Returns:
        Root mean squares over places inside, one ratio per equation.
    """
    centre = torch.as_tensor(centre, dtype=torch.float64)
    here = (points - centre).norm(dim=-1) < radius
    basis = polynomials((points[here] - centre) / radius, degree)
    assert len(basis) > 1.5 * basis.shape[1]
    known = torch.stack([values[name][here] for name in problem.channels], -1)
    coefficients = torch.linalg.lstsq(basis, known).solution

    def field(queries, bend=0.0):
        value = polynomials((queries - centre) / radius, degree) @ coefficients
        return value * (1 + bend * torch.sin(6 * queries[..., :1] + 5 * queries[..., 1:]))

    generator = torch.Generator().manual_seed(0)
    away, angle = torch.rand(2, PLACES, 1, generator=generator, dtype=torch.float64)
    away, angle = 0.6 * radius * away.sqrt(), 2 * math.pi * angle
    queries = (centre + away * torch.cat([angle.cos(), angle.sin()], -1))[None]
    residual = compile_residual(problem)
    given = residual.evaluate_inputs(functions, queries)
    right = residual(field, queries, given).values
    wrong = residual(lambda q: field(q, bend=0.1), queries, given).values
    assert residual.fallback is None
    return (right.square().mean((0, 1)) / wrong.square().mean((0, 1))).sqrt()
