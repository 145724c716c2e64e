"""Batches of large matrices on two threads of which MKL may not choose fewer, in real processes."""

import os
import subprocess
import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from piop.linalg import factorise, invert, least_squares, solve, solve_without_gradient

BATCH = """
import torch
from piop.linalg import factorise, invert, least_squares, solve, solve_without_gradient
assert torch.get_num_threads() == 2
generator = torch.Generator().manual_seed(0)
for dtype in (torch.float64, torch.complex128):
    for shape in ((4, 197, 197), (2, 3, 160, 160), (8, 64, 64), (1, 300, 300), (64, 16, 16)):
        matrix = torch.randn(shape, dtype=dtype, generator=generator)
        matrix = matrix + 2 * shape[-1] ** 0.5 * torch.eye(shape[-1], dtype=dtype)
        right = torch.randn(*shape[:-1], 2, dtype=dtype, generator=generator)
        inverse, singular = invert(matrix)
        lu, pivots, flat = factorise(matrix)
        assert not singular.any() and singular.shape == shape[:-2]
        assert not flat.any() and flat.shape == shape[:-2]
        found = [solve(matrix, right), inverse @ right, torch.linalg.lu_solve(lu, pivots, right)]
        found += [solve_without_gradient(matrix, right), least_squares(matrix, right)]
        for solution in found:
            assert (matrix @ solution - right).abs().max() < 1e-11  # rounding: about 1e-14
"""

SPECTRUM = """
import math, torch
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature
from piop.models.core.harmonic_fit import HarmonicFit
assert torch.get_num_threads() == 2
axes = [AxisSignature(name, 0.0, 1.0, periodic=True) for name in "xy"]
spectrum = HarmonicFit(InputSignature("u0", ("x", "y"), waves=8), axes).double()
ticks = torch.arange(20, dtype=torch.float64) / 20
shared = torch.cartesian_prod(ticks, ticks).expand(4, -1, 2)
values = torch.cos(2 * math.pi * shared[..., :1])
for points in (shared, shared.contiguous()):  # one matrix, and one for each function
    coefficients = spectrum(FunctionSamples(points, values))
    assert coefficients.shape[1] > 150  # from about there on MKL factors on several threads
    assert (spectrum.basis(points) @ coefficients - values).abs().max() < 1e-4  # the ridge's bias
"""


@pytest.mark.parametrize("script", [BATCH, SPECTRUM], ids=["matrices", "spectrum"])
def test_batches_are_right_where_mkl_may_not_choose_its_threads(script):
    threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "MKL_DYNAMIC": "FALSE"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=120,  # what is wrong may go on for ever
    )
    assert ended.returncode == 0, ended.stderr


def test_a_singular_matrix_is_told():
    matrix = torch.eye(40).repeat(3, 1, 1)
    matrix[1, 7, 7] = 0
    assert (invert(matrix)[1] > 0).tolist() == [False, True, False]
    assert (factorise(matrix)[2] > 0).tolist() == [False, True, False]
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        solve(matrix, torch.ones(3, 40, 1))


def test_a_matrix_serves_every_right_side_of_a_batch():
    found = solve(2 * torch.eye(40).unsqueeze(0), torch.ones(3, 40, 2))
    assert torch.equal(found, torch.full((3, 40, 2), 0.5))


def test_a_fit_is_the_same_to_the_last_digit_wherever_its_memory_is():
    generator = torch.Generator().manual_seed(0)
    matrix, right = (torch.randn(300, n, generator=generator).double() for n in (250, 4))
    found, between = [], []
    for n in range(20):  # with the driver "gelsy" nearly each differs from the others
        found.append(least_squares(matrix, right))
        between.append(bytearray(1000 * n + 24))
    assert all(torch.equal(solution, found[0]) for solution in found)


def test_systems_without_gradient_are_nodes_of_a_traced_graph():
    matrix, right = torch.randn(3, 9, 5).double(), torch.randn(3, 9, 2).double()
    square = matrix.mT @ matrix

    def both(matrix, right, square):
        fitted = least_squares(matrix, right)
        return fitted, solve_without_gradient(square, matrix.mT @ right)

    graph = make_fx(both, tracing_mode="fake")(matrix, right, square)
    names = [str(node.target) for node in graph.graph.nodes]
    assert {"piop.least_squares.default", "piop.solve_without_gradient.default"} <= {*names}
    for found in (both(matrix, right, square), graph(matrix, right, square)):
        torch.testing.assert_close(found[0], torch.linalg.pinv(matrix) @ right)
        torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
def test_one_matrix_for_many_systems_is_factored_once(batch, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(*batch, 40, 40, dtype=torch.float64, generator=generator)
    right = torch.randn(2, 3, 40, 5, dtype=torch.float64, generator=generator)
    sizes = []
    plain = torch.linalg.solve
    monkeypatch.setattr(torch.linalg, "solve", lambda a, b: sizes.append(a.shape) or plain(a, b))
    found = solve(matrix, right)
    assert sizes == [(40, 40)]
    torch.testing.assert_close(matrix @ found, right, rtol=0, atol=1e-10)
