"""Linearised equations that are solved once for several steps."""

import pytest
import torch

from piop.errors import UsageError
from piop.problem import Problem
from piop.residual import TargetResidual
from piop.residual.linearised import steady
from piop.run import fit, resume
from piop.training.batches.equations import EquationSource
from piop.training.batches.targets import TargetBatches
from piop.training.build import build_model, build_objective, build_source
from piop.training.distributed import SingleProcess

STEPS = 4
SMALL = {"width": 16, "blocks": 1, "heads": 2, "functions": 3, "checkpoint": 1e-9}


@pytest.fixture(scope="module")
def problem():
    """Nonlinear, so that its linear part is not solved exactly."""
    size = {"amplitude": [1, 2], "wavenumber": [1, 2], "terms": 2}
    return Problem(
        name="nonlinear",
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"f": {"of": ["x"], "law": "fourier_series", **size}},
        equations=["-dxx(u) + 5*u**3 = 10*f"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        sensors={"f": {"count": 17, "place": "grid"}},
        save={"x": 33},
    )


@pytest.fixture(autouse=True)
def few_values(monkeypatch):
    """Let small lattices count as large ones."""
    monkeypatch.setattr(steady, "MOST_EACH_STEP", 5)
    monkeypatch.setattr(steady, "STEPS_PER_SOLUTION", STEPS)


@pytest.fixture
def run(problem, tmp_path):
    plain = {"samples": 0, "calibrate": 0, "seed": 1, "compile": False}
    return fit(problem, steps=2, out=tmp_path / "run", settings=SMALL, **plain)


def parts_of(run, processes=None):
    model = build_model(run.problem, run.statistics, run.config)
    loss = build_objective(model, run.statistics, run.config)
    source = build_source(model, loss, run.statistics, run.config, None, processes)
    assert isinstance(source, TargetBatches)
    assert isinstance(source.equations, EquationSource)  # one in four is needed: none ahead
    return loss, source


def change(loss):
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter += 0.01


def test_targets_of_the_first_step_serve_the_steps_after_it(run):
    loss, source = parts_of(run)
    linearised = loss.residual.linearised
    plain = source.equations(0, 0.0)
    expected = linearised(
        loss.field(plain), plain.equations.queries, plain.equations.input_values
    ).values
    first = source(0, 0.0)
    found = loss.misfits(first, first.equations).values * loss.scales
    torch.testing.assert_close(found, expected)
    assert expected.abs().max() > 0.01
    (targets,) = first.equations.input_values
    change(loss)
    for step in range(1, STEPS):
        batch = source(step, 0.1)
        assert torch.equal(batch.equations.input_values[0], targets)
        assert torch.equal(batch.inputs["f"].values, first.inputs["f"].values)
    batch = source(STEPS, 0.1)
    assert not torch.equal(batch.inputs["f"].values, first.inputs["f"].values)
    assert not torch.equal(batch.equations.input_values[0], targets)


def test_the_gradient_is_that_of_the_values_alone(run):
    loss, source = parts_of(run)
    batch = source(0, 0.0)
    misfits = loss.misfits(batch, batch.equations).values
    assert misfits.requires_grad
    assert not batch.equations.input_values[0].requires_grad


def test_targets_are_kept_for_a_resume(run):
    _, source = parts_of(run)
    (targets,) = source(STEPS, 0.0).equations.input_values
    other_loss, other = parts_of(run)
    change(other_loss)
    other.load_state_dict(source.state_dict())
    (kept,) = other(STEPS + 1, 0.1).equations.input_values
    assert torch.equal(kept, targets)
    state = source.state_dict()
    _, fewer = parts_of(run)
    fewer.load_state_dict({**state, "targets": 0 * state["targets"][:-1]})
    (found,) = fewer(STEPS, 0.0).equations.input_values
    torch.testing.assert_close(found, targets)  # solved anew


def test_processes_solve_for_their_own_functions(run):
    class Half(SingleProcess.__base__):
        count, lead, collect, agree = 2, None, None, None

        def __init__(self, rank):
            self.rank = rank

        def add(self, tensors):
            return list(tensors)

    whole = parts_of(run)[1](0, 0.0).equations.input_values[0]
    halves = [parts_of(run, Half(rank))[1] for rank in range(2)]
    parts = [half(0, 0.0).equations.input_values[0] for half in halves]
    assert [len(part) for part in parts] == [2, 1]
    torch.testing.assert_close(torch.cat(parts), whole)
    gathered = sum(half.state_dict()["targets"] for half in halves)
    torch.testing.assert_close(gathered, whole)
    halves[1].load_state_dict({"first": 0, "targets": whole})
    assert torch.equal(halves[1](1, 0.0).equations.input_values[0], whole[2:])


def test_a_resumed_run_takes_the_same_steps(problem, tmp_path):
    plain = {"samples": 0, "calibrate": 0, "seed": 1, "compile": False, "settings": SMALL}
    whole = fit(problem, steps=7, out=tmp_path / "whole", **plain)

    def stop(row):
        if row["step"] == 2:  # in the middle of the steps that share targets
            raise KeyboardInterrupt

    part = fit(problem, steps=7, out=tmp_path / "part", progress=stop, **plain)
    assert part.metrics[-1]["step"] < 7
    resumed = resume(part.path, samples=0)
    for name, value in whole.model.operator.state_dict().items():
        torch.testing.assert_close(resumed.model.operator.state_dict()[name], value, rtol=0, atol=0)


def test_it_learns_the_solution(problem, tmp_path):
    plain = {"samples": 0, "calibrate": 0, "seed": 1, "compile": False}
    run = fit(problem, steps=150, out=tmp_path / "run", **plain)
    found = run.evaluate(8, write=False)["relative_l2"]["mean"]
    assert found < 0.05  # zero has 1; with targets that are never renewed 0.11


def test_other_values_are_refused(run):
    loss, source = parts_of(run)
    batch = source.equations(0, 0.0)
    points = batch.equations
    assert isinstance(loss.residual, TargetResidual)
    with pytest.raises(UsageError, match="pass the corrected values"):
        loss.residual(loss.field(batch), points.queries, ())


def test_small_lattices_and_linear_equations_are_solved_in_each_step(problem, run, monkeypatch):
    assert run.statistics.lattice
    monkeypatch.setattr(steady, "MOST_EACH_STEP", 700)
    model = build_model(run.problem, run.statistics, run.config)
    assert not isinstance(
        build_objective(model, run.statistics, run.config).residual, TargetResidual
    )
    monkeypatch.setattr(steady, "MOST_EACH_STEP", 5)
    linear = Problem(
        name="linear",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["-dxx(u) + u = 1"],
        boundary={"x": {"dirichlet": {"u": 0}}},
    )
    from piop.residual import Lattice, linearise

    assert linearise(linear, Lattice(1, (9,)), [1.0]).steps_per_solution == 1
