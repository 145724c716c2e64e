import math

import pytest
import torch

from piop.training.config import PointsConfig
from piop.training.loop.gradients import eager_gradients
from piop.training.loop.profile import Profile
from piop.training.loss.weighting.tangent_kernel import queries_of

POINTS = PointsConfig(functions=2, queries=4, boundary=4)


def diagonal(values, weight, parameters):
    """The kernel's diagonal by one gradient per misfit, summed at each point: ``[B, N]``."""
    scaled = values * torch.as_tensor(weight).double().sqrt().expand(values.shape[:2])[..., None]
    found = []
    for misfit in scaled.flatten():
        gradient = torch.autograd.grad(misfit, parameters, retain_graph=True, allow_unused=True)
        found.append(sum(g.square().sum() for g in gradient if g is not None))
    return torch.stack(found).view(values.shape).sum(-1)


def diagonals(loss, batch, parameters):
    equations = loss.misfits(batch, batch.equations)
    found = {"equations": diagonal(equations.values, equations.weight, parameters)}
    weight = loss._function_weight(batch)
    for name, points in batch.conditions.items():
        condition = loss.conditions[name]
        field = loss._field(batch, name, points)
        values = condition.residual(field, points.queries, points.input_values).values
        found[name] = diagonal(condition.misfits(values), weight, parameters)
    return found


def measured(built, batch, steps):
    """Traces that each of many steps' signs give ``[steps, groups]``."""
    loss = built.loss
    parameters = [p for p in loss.parameters() if p.requires_grad]
    (member,) = loss.weightings.members
    found = []
    for step in range(steps):
        member.mean.observed.zero_()
        loss.weightings.prepare(batch, step, eager_gradients(loss, Profile()), parameters)
        found.append(member.mean.values.clone())
    return torch.stack(found)


def assert_unbiased(samples, truth):
    """The mean over draws is the truth within four standard errors."""
    error = samples.std(0) / math.sqrt(len(samples))
    assert ((samples.mean(0) - truth).abs() <= 4 * error + 1e-12 * truth).all(), (samples, truth)
    assert (error < 0.35 * truth).all()  # so that the line above says something


def test_traces_of_parts_are_the_mean_of_the_explicit_diagonal(heat, builder):
    built = builder(heat, points=POINTS, constraints="soft", weighting="ntk", weight_every=1)
    batch = built.draw(0, 0.0)
    parameters = [p for p in built.loss.parameters() if p.requires_grad]
    truth = {k: v.mean() for k, v in diagonals(built.loss, batch, parameters).items()}
    expected = torch.stack([truth["equations"], truth["initial"], truth["periodic/x"]])
    assert built.loss.weightings.members[0].parts == ("residual", "initial", "boundary")
    samples = measured(built, batch, 40)
    assert_unbiased(samples, expected)


def test_weights_of_parts_are_the_mean_trace_over_their_own(heat, builder):
    built = builder(heat, points=POINTS, constraints="soft", weighting="ntk")
    batch = built.draw(0, 0.0)
    traces = measured(built, batch, 1)[0]
    member = built.loss.weightings.members[0]
    weights = member.entering(batch)
    assert torch.allclose(weights["parts"], traces.mean() / traces, rtol=1e-4)
    assert all(not v.any() for k, v in weights.items() if k.startswith("probe/"))


def test_a_single_point_has_its_own_diagonal_exactly(heat, builder):
    points = PointsConfig(functions=1, queries=1, boundary=1)
    built = builder(heat, points=points, constraints="soft", weighting="ntk")
    batch = built.draw(0, 0.0)
    parameters = [p for p in built.loss.parameters() if p.requires_grad]
    truth = diagonals(built.loss, batch, parameters)["equations"].item()
    assert measured(built, batch, 1)[0, 0].item() == pytest.approx(truth, rel=1e-10)


def test_traces_of_time_bins_are_the_mean_of_the_diagonal_there(heat, builder):
    choices = {"constraints": "soft", "weighting": "ntk_local", "bins": 3, "weight_every": 1}
    built = builder(heat, points=POINTS, **choices)
    batch = built.draw(3, 0.0)
    parameters = [p for p in built.loss.parameters() if p.requires_grad]
    every = diagonals(built.loss, batch, parameters)
    bins = ((queries_of("equations", batch)[..., 0] - 1) * 3).long()
    assert [int((bins == k).sum()) for k in range(3)] == [3, 1, 4]
    expected = [every["equations"][bins == k].mean() for k in range(3)]
    expected = torch.stack([*expected, every["initial"].mean(), every["periodic/x"].mean()])
    samples = measured(built, batch, 40)
    assert_unbiased(samples, expected)
    member = built.loss.weightings.members[0]
    traces = member.mean.values
    weights = member.entering(batch)
    by_hand = (traces.max() / traces).sqrt()
    found = member.of_points(weights, batch.equations.queries)
    assert torch.allclose(found, by_hand[bins])
    assert torch.allclose(member.of_part(weights, "initial"), by_hand[3])
    assert member.of_part(weights, "residual") == 1.0


def test_a_bin_without_a_point_keeps_weight_one(heat, builder):
    built = builder(heat, points=POINTS, weighting="ntk_local", bins=50)
    batch = built.draw(0, 0.0)
    measured(built, batch, 1)
    member = built.loss.weightings.members[0]
    met = torch.zeros(50, dtype=torch.bool)
    met[((batch.equations.queries[..., 0] - 1) * 50).long().flatten()] = True
    weights = member.entering(batch)["bins"]
    assert (weights[~met] == 1.0).all()
    assert weights[met].max() > 1.0


def test_signs_of_a_sample_do_not_depend_on_who_draws_them(heat, builder):
    built = builder(heat, points=POINTS, constraints="soft", weighting="ntk")
    probes = built.loss.weightings.members[0].probes
    batch = built.draw(0, 0.0)
    whole = probes.signs(batch, 5)
    probes.part = lambda total: range(1, total)
    last = probes.signs(batch, 5)
    assert all(torch.equal(whole[key][1:], last[key]) for key in whole)
    sizes = torch.cat([v.flatten() for v in whole.values()])
    assert set(sizes.sign().tolist()) == {-1.0, 1.0}
    assert torch.allclose(sizes.abs(), torch.full_like(sizes, 2**0.5))
    assert any(not torch.equal(v[1:], last[k]) for k, v in probes.signs(batch, 6).items())
