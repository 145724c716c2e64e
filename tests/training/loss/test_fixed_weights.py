import torch

from piop.training.loss.objective import front_weight, relative_weight


def test_functions_weigh_by_the_inverse_of_their_size():
    weight = relative_weight(torch.tensor([0.0, 0.4, 1.9]), floor=0.1)
    assert torch.allclose(weight, torch.tensor([10.0, 2.0, 0.5]))


def test_fronts_are_damped_by_the_squared_factor():
    slopes = [torch.tensor([[0.0, 3.0]]), torch.tensor([[0.0, 4.0]])]
    weight = front_weight(slopes, strength=0.2)
    assert torch.allclose(weight, torch.tensor([[1.0, 0.25]]))


def test_fronts_carry_no_gradient():
    slope = torch.ones(1, 1, requires_grad=True)
    assert not front_weight([slope], 1.0).requires_grad


def test_nothing_is_damped_without_slopes_or_strength():
    assert front_weight([], 1.0) == 1.0
    assert front_weight([torch.ones(1, 1)], 0.0) == 1.0
