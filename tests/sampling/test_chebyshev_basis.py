"""Chebyshev polynomials, against their definition and NumPy's."""

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev

from piop.sampling.chebyshev_basis import ChebyshevBasis

LOW, HIGH = -1.0, 3.0


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_are_those_of_the_polynomials(order: int) -> None:
    basis, x = ChebyshevBasis.of_size(9, LOW, HIGH), torch.linspace(LOW, HIGH, 13).double()
    unit = (x - LOW) / (HIGH - LOW) * 2 - 1
    for k, column in enumerate(basis.table(x, order).unbind(-1)):
        one = np.eye(9)[k]
        wanted = chebyshev.chebval(unit.numpy(), chebyshev.chebder(one, order))
        scale = (2 / (HIGH - LOW)) ** order
        np.testing.assert_allclose(column.numpy(), scale * wanted, rtol=1e-11, atol=1e-9)


def test_the_basis_moves_with_its_precision() -> None:
    basis = ChebyshevBasis.of_size(4, LOW, HIGH).to(None, torch.float32)
    assert basis.table(torch.zeros(2, 3), 1).dtype == torch.float32
    assert basis.table(torch.zeros(2, 3)).shape == (2, 3, 4)
