"""SOAP on many parameters at once takes the steps of the library's, one parameter at a time."""

import subprocess
import sys

import pytest
import pytorch_optimizer
import torch
from torch import nn

from piop.training.optimisers import soap
from piop.training.optimisers.soap import SOAP, eigenbasis, separate_eigenvalues

SHAPES = [(3, 5), (4,), (3, 5), (2, 3, 4), (7, 7), (), (1, 6), (4,), (2, 3, 4)]


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [torch.randn(s, generator=generator, dtype=torch.float64) for s in SHAPES]
    return [nn.Parameter(s.to(dtype)) for s in shapes]


def loss_of(weights, step):
    """A quadratic in random directions, which differ from step to step."""
    generator = torch.Generator().manual_seed(step)
    total = 0.0
    for index, weight in enumerate(weights):
        other = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight)
        total = total + ((weight - 0.3 * index) * (1 + other)).square().sum()
    return total


def train(optimiser, weights, steps, first=0):
    for step in range(first, first + steps):
        optimiser.zero_grad(set_to_none=True)
        loss_of(weights, step).backward()
        optimiser.step()
    return weights


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_steps_are_those_of_the_library(weight_decay):
    mine, theirs = parameters(), parameters()
    choices = {"lr": 1e-2, "weight_decay": weight_decay, "precondition_frequency": 4}
    train(SOAP(mine, **choices), mine, 11)
    train(pytorch_optimizer.SOAP(theirs, **choices), theirs, 11)
    moved = [float((a - b).detach().abs().max()) for a, b in zip(theirs, parameters(), strict=True)]
    assert min(moved) > 0.02
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_restored_state_goes_on_to_the_same_numbers(dtype):
    whole, stopped = parameters(dtype), parameters(dtype)
    choices = {"lr": 1e-2, "weight_decay": 0.0, "precondition_frequency": 4}
    train(SOAP(whole, **choices), whole, 13)
    first = SOAP(stopped, **choices)
    train(first, stopped, 6)
    second = SOAP(stopped, **choices)
    second.load_state_dict(first.state_dict())
    train(second, stopped, 7, first=6)
    for one, other in zip(whole, stopped, strict=True):
        assert torch.equal(one, other)


def test_the_state_of_the_library_can_be_loaded():
    """A run of an older version is resumed."""
    mine, theirs = parameters(), parameters()
    choices = {"lr": 1e-2, "weight_decay": 0.0, "precondition_frequency": 4}
    older = pytorch_optimizer.SOAP(theirs, **choices)
    train(older, theirs, 6)
    optimiser = SOAP(mine, **choices)
    optimiser.load_state_dict(older.state_dict())
    with torch.no_grad():
        for one, other in zip(mine, theirs, strict=True):
            one.copy_(other)
    train(optimiser, mine, 3, first=6)
    train(older, theirs, 3, first=6)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_a_long_axis_has_no_eigenbasis(monkeypatch):
    monkeypatch.setattr(soap, "LONGEST", 4)
    mine, theirs = parameters(), parameters()
    choices = {"lr": 1e-2, "weight_decay": 0.0}
    train(SOAP(mine, **choices), mine, 5)
    train(pytorch_optimizer.SOAP(theirs, max_precondition_dim=4, **choices), theirs, 5)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-4)


def test_parameters_without_gradients_stay():
    weights = parameters()
    unused = nn.Parameter(torch.ones(3, 5))
    optimiser = SOAP([*weights, unused], lr=1e-2)
    train(optimiser, weights, 5)
    assert torch.equal(unused, torch.ones(3, 5))
    assert not torch.equal(weights[0], parameters()[0])


def test_in_double_precision_small_eigenvalues_are_separated():
    covariance = torch.diag(torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)).expand(2, 4, 4)
    values = torch.linalg.eigvalsh(separate_eigenvalues(covariance))
    assert (values.diff(dim=-1) > 1e-5).all()
    assert (values[:, -1] - 1).abs().max() < 1e-12


def test_a_covariance_whose_eigenvectors_are_not_found_is_tried_in_double_precision(monkeypatch):
    eigh = torch.linalg.eigh

    def only_double(matrix):
        if matrix.dtype != torch.float64:
            raise torch.linalg.LinAlgError("did not converge")
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", only_double)
    basis = eigenbasis(torch.diag(torch.tensor([1.0, 3.0, 2.0])))
    assert torch.equal(basis.abs(), torch.eye(3)[[1, 2, 0]].T)
    with pytest.raises(torch.linalg.LinAlgError):
        monkeypatch.setattr(torch.linalg, "eigh", lambda m: only_double(m.float()))
        eigenbasis(torch.eye(3))


def test_it_does_not_import_the_tracer_of_torch():
    """Which takes a second before the first step."""
    code = """
import sys, torch
from piop.training.optimisers.soap import SOAP
weight = torch.nn.Parameter(torch.ones(2, 2))
optimiser = SOAP([weight], lr=0.1)
optimiser.zero_grad(set_to_none=True)
weight.square().sum().backward()
optimiser.step()
optimiser.load_state_dict(optimiser.state_dict())
print([n for n in ("torch._dynamo", "pytorch_optimizer") if n in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["[]"], done.stderr
