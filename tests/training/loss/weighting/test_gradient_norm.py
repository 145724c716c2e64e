import pytest
import torch

from piop.training.loop.gradients import eager_gradients
from piop.training.loop.profile import Profile


def norm_of(value, parameters):
    found = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return sum(g.square().sum() for g in found if g is not None).sqrt()


def by_autograd(loss, batch, parameters):
    parts, _ = loss(batch)
    norms = {k: norm_of(v, parameters) for k, v in parts.items() if k != "loss"}
    mean = sum(norms.values()) / len(norms)
    return {part: (mean / (norm + 1e-5 * mean)).item() for part, norm in norms.items()}


@pytest.mark.parametrize("seed", range(3))
def test_factors_are_those_of_the_gradient_of_each_part_alone(heat, builder, seed):
    built = builder(heat, constraints="soft", weighting="gradient_norm", weight_every=2, memory=0.6)
    loss = built.loss
    parameters = [p for p in loss.parameters() if p.requires_grad]
    expected = None
    for step in range(5):
        batch = built.draw(10 * seed + step, 0.0)
        if step % 2 == 0:
            new = by_autograd(loss, batch, parameters)
            expected = expected or new
            expected = {k: 0.6 * expected[k] + 0.4 * new[k] for k in new}
        ready = loss.weightings.prepare(batch, step, eager_gradients(loss, Profile()), parameters)
        for part, factor in expected.items():
            (member,) = loss.weightings.members
            assert member.of_part(ready.weights, part).item() == pytest.approx(factor, rel=1e-9)
        parts, _ = loss(ready)
        fixed = {"residual": 1.0, "initial": 10.0, "boundary": 1.0}
        total = sum(expected[k] * fixed[k] * parts[k].item() for k in expected)
        assert parts["loss"].item() == pytest.approx(total, rel=1e-9)
        with torch.no_grad():
            for p in parameters:
                p += 0.05 * torch.randn(
                    p.shape, dtype=p.dtype, generator=torch.Generator().manual_seed(step)
                )


def test_measuring_leaves_no_gradient_behind(heat, builder):
    built = builder(heat, constraints="soft", weighting="gradient_norm")
    parameters = list(built.loss.parameters())
    steps = eager_gradients(built.loss, Profile())
    built.loss.weightings.prepare(built.draw(0, 0.0), 0, steps, parameters)
    assert all(p.grad is None for p in parameters)


def test_a_part_that_is_switched_off_takes_no_part(heat, builder):
    built = builder(heat, constraints="soft", weighting="gradient_norm", boundary_weight=0.0)
    (member,) = built.loss.weightings.members
    assert member.parts == ("residual", "initial")


def test_factors_that_adapt_are_given_by_part_and_others_are_not(heat, builder):
    built = builder(heat, constraints="soft", weighting="gradient_norm")
    weightings, batch = built.loss.weightings, built.draw(0, 0.0)
    parameters = [p for p in built.loss.parameters() if p.requires_grad]
    ready = weightings.prepare(batch, 0, eager_gradients(built.loss, Profile()), parameters)
    found = weightings.of_parts(ready, ["residual", "initial", "data"])
    assert list(found) == ["residual", "initial"]
    (member,) = weightings.members
    assert found["initial"] == member.of_part(ready.weights, "initial") != 1
