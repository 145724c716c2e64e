import math

import pytest
import torch
from torch import nn

from piop.errors import UsageError
from piop.training.config import BudgetConfig, OptimiserConfig, TrainingConfig, apply_settings
from piop.training.optimisers.build import Muon, build_optimiser


def matrix(rows, columns):
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def newton_schulz(x):
    """Five steps of X ← 3.4445 X − 4.775 XXᵀX + 2.0315 (XXᵀ)²X from X/‖X‖, in float64."""
    x = x / x.norm()
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x


def moved(start, gradients, rate=0.1):
    """Where a matrix goes, step by step."""
    weight = nn.Parameter(start.clone())
    optimiser = Muon([weight], rate)
    path = [start]
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
        path.append(weight.detach().clone())
    return path


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (8, 3), (2, 9)])
def test_a_step_moves_along_the_polar_factor_with_the_size_of_adamw(rows, columns):
    gradient = matrix(rows, columns)
    before, after = moved(torch.zeros_like(gradient), [gradient], rate=0.1)
    step = (before - after) / (0.1 * 0.2 * math.sqrt(max(rows, columns)))
    u, _, v = torch.linalg.svd(gradient, full_matrices=False)
    inside = u.T @ step @ v.T  # diagonal, and near one, for an orthogonal step
    assert torch.all((inside.diagonal() > 0.65) & (inside.diagonal() < 1.25))
    assert (inside - inside.diagonal().diag()).abs().max() < 0.05  # bfloat16, five iterations


def test_two_steps_follow_newton_schulz_of_the_nesterov_momentum():
    first, second = matrix(5, 7), matrix(7, 5).T
    start, one, two = moved(torch.zeros(5, 7, dtype=torch.float64), [first, second], rate=0.1)
    factor = 0.1 * 0.2 * math.sqrt(7)
    momentum = 0.05 * first
    assert torch.allclose(
        (start - one) / factor, newton_schulz(0.05 * first + 0.95 * momentum), atol=0.05
    )
    momentum = 0.95 * momentum + 0.05 * second
    assert torch.allclose(
        (one - two) / factor, newton_schulz(0.05 * second + 0.95 * momentum), atol=0.05
    )


def test_all_but_matrices_follow_adamw_exactly():
    shapes = [(4,), (1, 5), (5, 1), (2, 3, 3), ()]
    ours = [nn.Parameter(torch.ones(shape)) for shape in [(3, 3), *shapes]]
    theirs = [nn.Parameter(torch.ones(shape)) for shape in shapes]
    optimiser = Muon(ours, 1e-2)
    adamw = torch.optim.AdamW(theirs, lr=1e-2, weight_decay=0.0)
    for count in range(3):
        for parameter in [*ours, *theirs]:
            parameter.grad = torch.full_like(parameter, 0.3 - 0.4 * count)
        for group in [*optimiser.param_groups, *adamw.param_groups]:
            group["lr"] = 1e-2 / (1 + count)
        optimiser.step()
        adamw.step()
    for own, truth in zip(ours[1:], theirs, strict=True):
        assert torch.equal(own, truth)


def test_the_schedule_reaches_matrices_and_the_rest():
    parameters = [nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3))]
    optimiser = Muon(parameters, 1e-2)
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    assert all(torch.equal(p, torch.ones_like(p)) for p in parameters)


@pytest.mark.parametrize("shapes", [[(3, 3)], [(3,)]], ids=["matrices only", "no matrices"])
def test_networks_of_one_kind_only_are_trained(shapes):
    parameters = [nn.Parameter(torch.ones(shape)) for shape in shapes]
    optimiser = build_optimiser(parameters, OptimiserConfig(optimiser="muon"))
    parameters[0].grad = torch.ones_like(parameters[0])
    optimiser.step()
    optimiser.zero_grad()
    assert not torch.equal(parameters[0], torch.ones_like(parameters[0]))
    assert parameters[0].grad is None


def test_an_unknown_optimiser_is_told_with_the_list():
    config = TrainingConfig(BudgetConfig(steps=1))
    with pytest.raises(UsageError, match=r"optimiser: 'sgd' is not one of soap, muon, adamw"):
        apply_settings(config, {"optimiser": "sgd"}, {})
