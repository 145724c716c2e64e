"""Comparisons of predictions with references at points of a region."""

from types import SimpleNamespace

import numpy as np
import torch

from piop.datasets import Queries
from piop.problem import Problem
from piop.report import comparison
from piop.report.field_figures import View
from piop.run import HeldOut
from piop.sampling import Draws, collocation


def test_solutions_at_points_are_interpolated_on_a_grid_inside_the_region():
    """Linear functions are exact everywhere between points; values outside are NaN."""
    problem = Problem.from_file("poisson_lshape")
    points = collocation(problem, Draws(0, 0, torch.arange(1)), 400)
    corners = torch.tensor([c.at(0.0).tolist() for c in problem.domain.outline.curves])[None]
    points = torch.cat([points, corners], 1)
    truth = {"u": 2 + points[..., 0] - 3 * points[..., 1]}
    held_out = HeldOut({}, {}, Queries(points=points), truth, None, torch.ones(1).bool())
    run = SimpleNamespace(problem=problem, model=None)
    shown = comparison.compare_on_region(run, held_out, {"u": 1.1 * truth["u"]}, points)
    x, y = np.meshgrid(shown.view.axes["x"], shown.view.axes["y"], indexing="ij")
    found = shown.reference["u"][0]
    known = np.isfinite(found)
    assert np.abs(found - (2 + x - 3 * y))[known].max() < 1e-12
    assert np.abs(shown.prediction["u"][0] - 1.1 * found)[known].max() < 1e-12
    places = np.stack([x, y], -1)[known]
    assert problem.domain.contains(places).all()
    assert known.mean() > 0.7
    assert shown.titles == ["input 0: error 0.1"]
    assert shown.residuals == {}


def test_errors_over_time_stand_beside_those_of_the_initial_data():
    """u = (1 + t) sin x: 10 % too much everywhere; the initial data miss t/(1 + t) of it."""
    problem = Problem.from_file("burgers")
    t, x = torch.linspace(0, 2, 5).double(), torch.arange(16).double() * (torch.pi / 8)
    truth = {"u": ((1 + t)[:, None] * torch.sin(x)).expand(3, -1, -1)}
    held_out = HeldOut({}, {}, Queries(axes={"t": t, "x": x}), truth, None, torch.ones(3).bool())
    run = SimpleNamespace(
        problem=problem, model=SimpleNamespace(operator=SimpleNamespace(end_only=False))
    )
    shown = comparison.compare_on_grid(run, held_out, {"u": truth["u"] * 1.1}, {"t": t, "x": x})
    np.testing.assert_allclose(shown.errors, 0.1, rtol=1e-12)
    np.testing.assert_allclose(shown.baselines["stays at u0"], t / (1 + t), atol=1e-12)
    assert shown.titles == [f"input {i}: error 0.1" for i in range(3)]


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
