"""Products with real matrices give what fast transforms give."""

import pytest
import torch

from piop.residual.real_transforms import RealTransforms

LIKE = torch.empty(0, dtype=torch.float64)


@pytest.mark.parametrize("points", [(7,), (8,), (6, 5), (5, 6), (4, 6, 8)])
def test_transforms_are_those_of_torch(points):
    transforms = RealTransforms(points, LIKE)
    values = torch.randn(2, 3, *points, generator=torch.Generator().manual_seed(0)).double()
    found = transforms.forward(values)
    truth = torch.fft.rfftn(values, dim=tuple(range(2, 2 + len(points))))
    assert transforms.modes == tuple(truth.shape[2:])
    torch.testing.assert_close(found, torch.stack([truth.real, truth.imag], 2).flatten(3))
    back = transforms.backward(found.unflatten(-1, transforms.modes))
    torch.testing.assert_close(back, values)
