from dataclasses import replace

import pytest
import torch

from piop.datasets import Dataset
from piop.errors import UsageError
from piop.training.batches.batch import flatten
from piop.training.batches.split import split_batch
from piop.training.loss.objective import root_of_squares


@pytest.mark.parametrize("constraints", ["hard", "soft"])
def test_every_part_vanishes_on_the_exact_solution(heat, builder, exact, constraints):
    built = builder(heat, constraints=constraints)
    scale = built.statistics.channel_scale[0]
    built.loss.operator.backbone = exact(scale, constraints == "hard")
    if constraints == "soft":
        built.loss.operator.mean.zero_()
    parts, _ = built.loss(built.draw(0, 0.0))
    names = {"loss", "residual"} | ({"initial", "boundary"} if constraints == "soft" else set())
    assert set(parts) == names
    assert parts.pop("loss").item() < 1e-10, parts  # a root
    assert all(value.item() < 1e-20 for value in parts.values()), parts


@pytest.mark.parametrize("constraints", ["hard", "soft"])
def test_no_part_vanishes_on_a_wrong_solution(heat, builder, constraints):
    built = builder(heat, constraints=constraints)
    parts, _ = built.loss(built.draw(0, 0.0))
    assert all(value.item() > 1e-6 for value in parts.values()), parts


WEIGHTS = {"residual_weight": 2.0, "initial_weight": 3.0, "boundary_weight": 5.0}


def weighted_sum(parts):
    return 2 * parts["residual"] + 3 * parts["initial"] + 5 * parts["boundary"]


def test_the_loss_is_the_mean_of_each_functions_root_of_its_weighted_squares(heat, builder):
    built = builder(heat, constraints="soft", **WEIGHTS)
    batch = built.draw(0, 0.0)
    apart = [weighted_sum(built.loss(one)[0]) for one in split_batch(batch, 3)]
    parts, _ = built.loss(batch)
    assert parts["loss"].item() == pytest.approx(torch.stack(apart).sqrt().mean().item(), rel=1e-12)
    assert parts["loss"].item() != pytest.approx(weighted_sum(parts).sqrt().item(), rel=1e-3)


@pytest.mark.parametrize("squares", [{"root": False}, {"weighting": "gradient_norm"}])
def test_else_the_loss_is_the_weighted_sum_of_its_parts(heat, builder, squares):
    built = builder(heat, constraints="soft", **WEIGHTS, **squares)
    parts, _ = built.loss(built.loss.weightings.attach(built.draw(0, 0.0)))
    assert parts["loss"].item() == pytest.approx(weighted_sum(parts).item(), rel=1e-12)


def test_the_loss_has_a_gradient_where_a_residual_vanishes():
    residuals = torch.tensor([[0.0, 0.0], [3e-30, 4e-30], [3.0, 4.0]], requires_grad=True)
    sizes = root_of_squares((residuals**2).sum(-1))
    sizes.sum().backward()
    assert sizes[2].item() == pytest.approx(5)
    torch.testing.assert_close(residuals.grad[0], torch.zeros(2))
    torch.testing.assert_close(residuals.grad[2], torch.tensor([0.6, 0.8]))
    assert residuals.grad.isfinite().all()


def test_one_evaluation_of_the_network_serves_all_conditions(heat, builder):
    built = builder(heat, constraints="soft")
    batch, calls = built.draw(0, 0.0), []
    backbone = built.loss.operator.backbone
    backbone.register_forward_pre_hook(lambda module, given: calls.append(given[1].shape[1]))
    parts, _ = built.loss(batch)
    points = [at.queries.shape[1] for at in batch.conditions.values()]
    assert len(points) == 2
    assert calls == [batch.equations.queries.shape[1], sum(points)]
    for name, at in batch.conditions.items():  # each by itself
        alone, _ = built.loss(replace(batch, conditions={name: at}))
        part = built.loss.conditions[name].part
        assert parts[part].item() == pytest.approx(alone[part].item(), rel=1e-12)


def test_conditions_are_evaluated_apart_where_streams_cannot_pass(heat, builder):
    built = builder(heat, constraints="soft", front=0.0)
    batch = built.draw(0, 0.0)
    usual, _ = built.loss(batch)
    backbone = built.loss.operator.backbone
    forward = backbone.forward

    def without_rule(inputs, queries):
        return forward(inputs, queries) + 0 * torch.special.i0e(queries).sum(-1, keepdim=True)

    backbone.forward = without_rule
    with pytest.warns(RuntimeWarning, match="no Taylor rule"):
        parts, _ = built.loss(batch)
    again, _ = built.loss(batch)
    for found in (parts, again):
        assert {k: v.item() for k, v in found.items()} == pytest.approx(
            {k: v.item() for k, v in usual.items()}, rel=1e-9
        )


def silence(backbone):
    """Let a network answer zero everywhere."""
    for parameter in backbone.parameters():
        torch.nn.init.zeros_(parameter)


def test_the_residual_is_that_of_the_lift_while_the_network_is_silent(heat, builder):
    built = builder(heat, constraints="hard", relative=False, front=0.0)
    silence(built.loss.operator.backbone)
    batch = built.draw(0, 0.0)
    found = built.loss(batch)[0]["residual"].item()
    u0 = batch.equations.lift[0]
    scale = built.statistics.equation_scale[0]
    by_hand = ((0.05 * torch.pi**2 * u0 / scale) ** 2).mean().item()
    assert found == pytest.approx(by_hand, rel=1e-10)


def test_relative_weights_divide_by_the_size_of_each_function(heat, builder):
    plain = builder(heat, relative=False, front=0.0)
    relative = builder(heat, relative=True, front=0.0)
    for built in (plain, relative):
        silence(built.loss.operator.backbone)
    batch = plain.draw(0, 0.0)
    u0 = batch.equations.lift[0, ..., 0]
    squares = (0.05 * torch.pi**2 * u0 / plain.statistics.equation_scale[0]) ** 2
    by_hand = (squares / (0.1 + batch.size[:, None])).mean().item()
    assert relative.loss(batch)[0]["residual"].item() == pytest.approx(by_hand, rel=1e-10)
    assert plain.loss(batch)[0]["residual"].item() == pytest.approx(
        squares.mean().item(), rel=1e-10
    )


def test_causal_weights_of_earlier_steps_multiply_the_squares_of_this_one(heat, builder):
    plain, causal = builder(heat, front=0.0), builder(heat, front=0.0, causal=50.0, bins=3)
    weightings = causal.loss.weightings
    first, second = plain.draw(0, 0.0), plain.draw(1, 0.0)
    parts, statistics = causal.loss(weightings.attach(first))
    assert parts["residual"] == plain.loss(first)[0]["residual"]  # nothing is known yet
    weightings.update(statistics)
    batch = weightings.attach(second)
    found = plain.loss.residual(
        plain.loss._field(batch, "equations", batch.equations), batch.equations.queries
    )
    squares = (found.values / plain.loss.scales).square().sum(-1) / (0.1 + batch.size[:, None])
    bins = ((batch.equations.queries[..., 0] - 1) * 3).long()
    by_hand = (squares * batch.weights["causal"][bins]).mean()
    assert causal.loss(batch)[0]["residual"].item() == pytest.approx(by_hand.item(), rel=1e-12)
    assert batch.weights["causal"][-1] < 0.9


def test_causal_weights_need_physics(heat, builder):
    assert builder(heat, causal=1.0).loss.weightings.members
    assert not builder(heat).loss.weightings.members
    with pytest.raises(UsageError, match="causal: 1 has nothing to do without physics"):
        builder(heat, data=data_of(None), physics=False, causal=1.0)


def test_gradients_reach_every_weight(built):
    built.loss(built.draw(0, 0.0))[0]["loss"].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in built.loss.parameters())


def data_of(built, functions=5):
    axes = {"t": torch.linspace(1, 2, 3).double(), "x": torch.arange(4).double() / 2}
    x = torch.arange(8).double() / 4
    phase = torch.arange(functions).double()[:, None]
    from piop.fields import FunctionSamples

    values = torch.cos(torch.pi * x + phase)[..., None]
    points = x[None, :, None].expand(functions, -1, -1)
    decay = torch.exp(-0.05 * torch.pi**2 * (axes["t"] - 1))
    u = decay[None, :, None] * torch.cos(torch.pi * axes["x"] + phase)[:, None]
    return Dataset({"u0": FunctionSamples(points, values)}, axes, {"u": u})


@pytest.mark.parametrize("constraints", ["hard", "soft"])
def test_the_data_part_vanishes_on_the_exact_solution(heat, builder, exact, constraints):
    data = data_of(None)
    built = builder(heat, data=data, physics=False, constraints=constraints)
    operator = built.loss.operator
    operator.backbone = exact(built.statistics.channel_scale[0], constraints == "hard")
    if constraints == "soft":
        operator.mean.zero_()
    batch = built.draw(0, 0.0)
    if constraints == "hard":  # the stand-in divides by t - t0
        late = batch.observations.queries[..., 0] > 1
        batch.observations.targets[~late] = torch.nan
        batch.observations.queries[~late] = 1.5
        batch.observations.known.copy_(late.sum())
    parts, _ = built.loss(batch)
    assert set(parts) == {"loss", "data"}
    assert parts["data"].item() < 1e-9  # the start is interpolated from eight sensors


def test_without_physics_there_are_no_equations_to_evaluate(heat, builder):
    batch = builder(heat).draw(0, 0.0)
    loss = builder(heat, data=data_of(None), physics=False).loss
    with pytest.raises(ValueError, match="no equations"):
        loss.misfits(batch, batch.equations)


def test_channels_without_data_do_not_count(heat, builder):
    built = builder(heat, data=data_of(None), physics=False)
    batch = built.draw(0, 0.0)
    before = built.loss(batch)[0]["data"]
    batch.observations.targets[:, ::2] = torch.nan
    batch.observations.known.copy_(batch.observations.targets.isfinite().sum())
    half = built.loss(batch)[0]["data"]
    assert half.isfinite()
    assert half != before


def test_physics_and_data_come_together(heat, builder):
    built = builder(heat, data=data_of(None))
    assert set(built.loss(built.draw(0, 0.0))[0]) == {"loss", "residual", "data"}


def test_a_batch_comes_apart_and_together_again(built):
    batch = built.draw(3, 0.0)
    tensors, rebuild = flatten(batch)
    again = rebuild(tensors)
    assert built.loss(again)[0]["loss"] == built.loss(batch)[0]["loss"]
    twice = rebuild([2 * t for t in tensors])
    assert torch.equal(twice.equations.queries, 2 * batch.equations.queries)
    assert torch.equal(twice.inputs["u0"].values, 2 * batch.inputs["u0"].values)
