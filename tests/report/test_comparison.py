"""Comparisons of predictions with references at points of a region."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from piop.datasets import Queries
from piop.problem import Problem
from piop.problem.capabilities import Capability
from piop.report import comparison
from piop.report.held_out_errors import HeldOutErrors
from piop.report.layouts import Cloud, View, triangulate
from piop.run import HeldOut
from piop.sampling import Draws, collocation


def lshape_points():
    problem = Problem.from_file("poisson_lshape")
    points = collocation(problem, Draws(0, 0, torch.arange(1)), 400)
    corners = torch.tensor([c.at(0.0).tolist() for c in problem.domain.outline.curves])[None]
    return problem, torch.cat([points, corners], 1)


def test_points_of_a_region_are_connected_within_it_alone():
    problem, points = lshape_points()
    run = SimpleNamespace(problem=problem)
    held_out = HeldOut({}, {}, Queries(points=points), {}, None, torch.ones(1).bool())
    cloud = comparison._view(run, held_out)
    assert isinstance(cloud, Cloud)
    (corners,) = cloud.triangles
    middles = cloud.points[0][corners].mean(1)
    assert problem.domain.contains(middles).all()
    a, b, c = np.moveaxis(cloud.points[0][corners], 1, 0)
    u, v = b - a, c - a
    area = np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum() / 2
    assert 2.7 < area <= 3.0  # that of the L


def test_a_region_that_is_not_known_has_no_triangles_across_its_gaps():
    ring = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    points = np.concatenate(
        [r * np.stack([np.cos(ring), np.sin(ring)], 1) for r in (0.8, 0.85, 0.9, 0.95, 1.0)]
    )
    middles = points[triangulate(points, None)].mean(1)
    assert len(middles) > 500
    assert np.linalg.norm(middles, axis=1).min() > 0.7
    assert triangulate(np.stack([ring, ring], 1), None).shape == (0, 3)


def test_errors_over_time_and_space_are_those_of_all_inputs():
    """u = (1 + t) sin x: 10 % too much everywhere; the initial data miss t/(1 + t) of it."""
    problem = Problem.from_file("burgers")
    t, x = torch.linspace(0, 2, 5).double(), torch.arange(16).double() * (torch.pi / 8)
    truth = {"u": ((1 + t)[:, None] * torch.sin(x)).expand(3, -1, -1)}
    held_out = HeldOut({}, {}, Queries(axes={"t": t, "x": x}), truth, None, torch.ones(3).bool())
    run = SimpleNamespace(
        problem=problem, model=SimpleNamespace(operator=SimpleNamespace(end_only=False))
    )
    errors = HeldOutErrors(np.arange(1, 4), np.full(3, 0.1), np.full(3, 0.1))
    view = View({"t": t.numpy(), "x": x.numpy()}, "t", {})
    empty = comparison.Comparison(view, {}, {}, ["best", "worst"], errors, [1, 2])
    shown = comparison.with_errors_in_time_and_space(run, empty, held_out, {"u": truth["u"] * 1.1})
    np.testing.assert_allclose(shown.errors, 0.1, rtol=1e-12)
    np.testing.assert_allclose(shown.baselines["stays at u0"], t / (1 + t), atol=1e-12)
    assert list(shown.space_view.axes) == ["x"]
    expected = 0.1 * np.abs(np.sin(x.numpy())) * np.sqrt(2)  # the mean square of a sine is a half
    np.testing.assert_allclose(shown.space_errors["u"], expected, atol=1e-12)
    assert shown.titles == ["input 2 (best): error 0.1", "input 3 (worst): error 0.1"]


def test_best_median_and_worst_inputs_are_chosen_by_their_errors():
    errors = np.array([0.3, 0.1, 0.5, 0.2, 0.4])
    samples = HeldOutErrors(
        np.arange(1, 6), errors, errors, bound=np.array([0.35, 0.05, 1, 1, np.nan])
    )
    assert samples.rows() == {"best": 1, "median": 0, "worst": 2}
    assert samples.covered() == (3, 4)
    assert HeldOutErrors(np.arange(2), errors[:2], errors[:2]).rows() == {"best": 1, "worst": 0}
    one = HeldOutErrors(np.arange(1), errors[:1], errors[:1])
    assert (one.rows(), one.covered()) == ({"only": 0}, None)


def on_a_disk(refusal="", **differing):
    """A run on a disk whose boundary holds the point (1, 0)."""
    domain = SimpleNamespace(
        contains=lambda points: (points**2).sum(1) <= 1.0,
        touches=lambda points: np.abs((points**2).sum(1) - 1.0) < 1e-9,
    )
    domain.fixed, domain.varies, domain.is_box = domain, False, False
    can = SimpleNamespace(equations=Capability(refusal))
    problem = {"name": "disk", "residuals": [1], "inputs": [1], "domain": domain}
    operator = {"gridded": False, "end_only": False}
    for own in (problem, operator):
        own |= {key: value for key, value in differing.items() if key in own}
    return SimpleNamespace(
        problem=SimpleNamespace(**problem, capabilities=can),
        model=SimpleNamespace(operator=SimpleNamespace(**operator)),
    )


def test_residuals_on_a_shape_are_drawn_off_its_boundary():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 0.5], [2.0, 2.0]])
    cloud = Cloud(("x", "y"), [points], [np.array([[0, 1, 3], [0, 2, 3]])], {})
    found = comparison._residual_view(on_a_disk(), cloud)
    assert found.points[0].tolist() == [[0, 0], [0.5, 0], [0, 0.5]]
    assert found.triangles[0].tolist() == [[0, 1, 2]], "none that the points off it would need"
    queries, sizes = comparison._drawn_queries(found)
    assert queries[0].tolist() == found.points[0].tolist()
    assert sizes == [3]


VARYING = SimpleNamespace(varies=True, is_box=False)
OBSTACLES = [
    (on_a_disk(), ["u0"], ""),
    (on_a_disk(), [], "the held-out inputs are data, known at their sensors alone"),
    (on_a_disk(inputs=[]), [], ""),
    (on_a_disk(residuals=[]), ["u0"], "the problem has no equations"),
    (on_a_disk(domain=VARYING), ["u0"], "shapes differ from sample to sample, and the equations"),
    (on_a_disk("disk: not supported yet: x"), ["u0"], "not supported yet: x"),
    (on_a_disk(gridded=True), ["u0"], "the network is evaluated on a grid"),
    (on_a_disk(end_only=True), ["u0"], "the network predicts the last time alone"),
]


@pytest.mark.parametrize(("run", "functions", "reason"), OBSTACLES)
def test_a_missing_residual_has_a_reason(run, functions, reason):
    held_out = SimpleNamespace(functions=dict.fromkeys(functions))
    found = comparison._residual_obstacle(run, held_out)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_a_residual_that_is_not_finite_is_not_drawn(monkeypatch):
    monkeypatch.setattr(comparison, "_residuals", lambda *_: {})
    points = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
    cloud = Cloud(("x", "y"), [points], [np.array([[0, 1, 2]])], {})
    errors = HeldOutErrors(np.arange(1), np.zeros(1), np.zeros(1))
    empty = comparison.Comparison(cloud, {}, {}, ["only"], errors, [0])
    held_out = SimpleNamespace(functions={"u0": None})
    found = comparison._with_residuals(on_a_disk(), empty, held_out)
    assert found.without_residuals == "it is not finite at every point"
    assert found.residual_view is None


def test_residuals_are_evaluated_at_the_points_that_are_drawn(monkeypatch):
    """In three dimensions the last time and the middle of z; the residual is 10 t + x + y + z."""
    own = {n: torch.linspace(0, 1, k).double() for n, k in zip("txyz", (3, 4, 5, 6), strict=True)}
    seen = []

    def residual(queries):
        seen.append(queries)
        return (10 * queries[..., :1] + queries[..., 1:].sum(-1, keepdim=True)).float()

    monkeypatch.setattr(comparison, "residual_of_model", lambda *_: None)
    monkeypatch.setattr(comparison, "residual_at_points", lambda *_: residual)
    operator = SimpleNamespace(gridded=False, end_only=False, scale=torch.zeros(()))
    run = SimpleNamespace(
        problem=SimpleNamespace(inputs=()),
        solved=None,
        config=None,
        model=SimpleNamespace(operator=operator),
    )
    truth = {"u": torch.zeros(2, 3, 4, 5, 6)}
    held_out = HeldOut({}, {}, Queries(axes=own), truth, None, torch.ones(2).bool())
    view = View({name: axis.numpy() for name, axis in own.items()}, "t", {})
    (found,) = comparison._residuals(run, held_out, view).values()
    assert sum(q.shape[1] for q in seen) == 4 * 5
    expected = 10 + own["x"][:, None] + own["y"] + own["z"][3]
    np.testing.assert_allclose(found, expected.expand(2, -1, -1), rtol=1e-6)
