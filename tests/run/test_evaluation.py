import json
import math
import shutil
from dataclasses import replace

import pytest
import torch

from piop.cli.error_tables import error_table
from piop.errors import NotSupportedError, SolverError, UsageError
from piop.report import draw_run
from piop.run import HeldOut, Run, fit, predict_held_out
from piop.run import evaluation as module
from piop.run.held_out import JudgedSamples
from piop.sampling import Draws, sample_inputs
from piop.sampling.random import HELD_OUT


def test_an_evaluation_holds_all_that_is_promised(trained):
    found = json.loads((trained.path / "evaluation.json").read_text())
    assert len(found["relative_l2"]["per_sample"]) == found["samples"] == 6
    assert found["relative_l2"]["mean"] == pytest.approx(
        sum(found["relative_l2"]["per_sample"]) / 6
    )
    assert found["reference"]["error_estimate"] <= 0.1 * max(found["relative_l2"]["per_sample"])
    assert found["reference"]["accepted"] == found["reference"]["solved"] == 6
    assert set(found["baselines"]) == {"stays at u0", "mean of the others", "zero"}
    assert found["baselines"]["zero"] == 1.0
    assert found["steps"] == 250
    assert found["residual"]["equation 1"] > 0
    assert found["per_time"]["t"] == [1.0, 1.25, 1.5, 1.75, 2.0]
    assert found["per_time"]["relative_l2"][0] < 1e-6  # the start is a hard constraint


def test_a_short_run_learns_heat_to_a_few_percent(trained):
    assert trained.evaluate(16, write=False)["relative_l2"]["mean"] < 0.05


def test_held_out_inputs_differ_from_those_trained_on(heat):
    held = Draws.of(HELD_OUT, 0, range(4))
    trained_on = sample_inputs(heat, Draws(0, 1, torch.arange(4)))["u0"]
    judged_on = sample_inputs(heat, held)["u0"]
    x = torch.linspace(0, 2, 5).double()[None, :, None]
    assert not torch.isclose(trained_on(x), judged_on(x)).any()


def test_a_run_made_before_purposes_had_names_is_judged_by_the_same_inputs(trained, tmp_path):
    shutil.copytree(trained.path, old := tmp_path / "old")
    record = json.loads((old / "config.json").read_text())
    assert record["training"]["machine"].pop("draws") == 2
    (old / "checksums.json").unlink()
    (old / "config.json").write_text(json.dumps(record))
    (x,) = trained.held_out(4).queries.axes["x"][None, None, :, None]
    expected = sample_inputs(trained.problem, Draws(0x9E3779B9, 0, torch.arange(4)))["u0"](x[None])
    before = Run.load(old).held_out(4)
    torch.testing.assert_close(before.functions["u0"](x[None]), expected, rtol=0, atol=0)
    now = trained.held_out(4).functions["u0"](x[None])
    assert not torch.isclose(now, expected).all(1).any()


def judged_samples(run, held_out):
    prediction = predict_held_out(run.problem, run.model, held_out)
    return JudgedSamples(held_out, held_out, prediction)


def compared(run, held_out):
    prediction = predict_held_out(run.problem, run.model, held_out)
    return module.compare_with_truth(run.problem, held_out, prediction)


def test_the_exact_solution_has_no_error_and_no_warning(trained):
    held_out = trained.held_out(3)
    found = module.compare_with_truth(trained.problem, held_out, held_out.truth)
    assert found["relative_l2"]["mean"] == 0
    assert found["warnings"] == []


def test_an_operator_no_better_than_a_baseline_is_warned_of(trained):
    held_out = trained.held_out(3)
    still = {n: v[:, :1].expand_as(v) for n, v in held_out.truth.items()}
    found = module.compare_with_truth(trained.problem, held_out, still)
    assert any("does not beat" in w and "stays at u0" in w for w in found["warnings"])
    assert sum("piop resume RUN --time 10m" in w for w in found["warnings"]) == 1


def test_references_that_missed_their_tolerance_are_warned_of(trained):
    held_out = trained.held_out(2)
    doubtful = HeldOut(
        held_out.functions,
        held_out.inputs,
        held_out.queries,
        held_out.truth,
        held_out.error_estimate,
        torch.tensor([True, False]),
    )
    found = compared(trained, doubtful)
    assert found["reference"]["accepted"] == 1
    assert any("1 of 2 references" in w for w in found["warnings"])


def test_solutions_that_are_zero_are_left_out_and_told(trained):
    held_out = trained.held_out(3)
    still = {n: v * torch.tensor([1.0, 0.0, 1.0])[:, None, None] for n, v in held_out.truth.items()}
    found = compared(trained, replace(held_out, truth=still))
    whole = compared(trained, held_out)["relative_l2"]["per_sample"]
    assert found["relative_l2"]["per_sample"] == pytest.approx([whole[0], whole[2]])
    assert any("1 of 3 solutions are zero" in w and "sample 1" in w for w in found["warnings"])
    nothing = {n: torch.zeros_like(v) for n, v in held_out.truth.items()}
    found = compared(trained, replace(held_out, truth=nothing))
    assert found["relative_l2"] is None


def test_a_problem_without_reference_still_gets_its_evaluation(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # earlier tests left references

    def refuse(*args, **kwargs):
        raise NotSupportedError("no solver covers it")

    monkeypatch.setattr("piop.run.references.solve_reference", refuse)
    found = trained.evaluate(2, write=False)
    assert found["relative_l2"] is None
    assert "no solver covers it" in found["warnings"][0]
    assert found["steps"] == 250


@pytest.mark.parametrize("kind", ["refused", "not finite"])
def test_errors_are_kept_where_a_later_reference_fails(trained, tmp_path, monkeypatch, kind):
    path = shutil.copytree(trained.path, tmp_path / "r")
    file, run = path / "evaluation.json", Run.load(path)
    before, solved = file.read_bytes(), run.held_out(2, seed=9)

    def fail(*_):
        if kind == "refused":
            raise SolverError("it blows up")
        missing = {n: v * float("nan") for n, v in solved.truth.items()}
        return judged_samples(run, replace(solved, truth=missing))

    monkeypatch.setattr("piop.run.drawn_inputs.DrawnInputs.judging", fail)
    found = run.evaluate(2, seed=9)
    assert found["relative_l2"] is None
    assert "left as it was, with the errors on 6 inputs of seed 0" in " ".join(found["warnings"])
    explained = f"it blows up. To see inputs and their references: piop explore {path}/spec.yaml"
    assert any(explained in w for w in found["warnings"]) == (kind == "refused")
    assert file.read_bytes() == before
    file.write_text("{")  # damaged: nothing to keep
    assert run.evaluate(2, seed=9)["relative_l2"] is None
    assert json.loads(file.read_text())["seed"] == 9
    (path / "checksums.json").unlink()
    file.write_bytes(before.replace(b'"steps": 250', b'"steps": 240'))  # of other weights
    run.evaluate(2, seed=9)
    assert json.loads(file.read_text())["relative_l2"] is None


def test_evaluating_again_gives_the_same_numbers(trained):
    loaded = Run.load(trained.path)
    one = trained.evaluate(3, write=False)["relative_l2"]
    assert loaded.evaluate(3, write=False)["relative_l2"] == one


def test_a_grid_may_be_asked_for(trained):
    found = trained.evaluate(2, at={"t": [1.0, 2.0], "x": [0.0, 0.5, 1.0, 1.5]}, write=False)
    assert found["per_time"]["t"] == [1.0, 2.0]


@pytest.mark.parametrize(
    "x", [[0.0, 0.5, 1.0, 1.5, 2.0], [1.9, 0.4, 0.1], [0.3]], ids=["both_ends", "uneven", "one"]
)
def test_references_are_at_the_positions_that_are_asked_for(trained, x):
    held_out = trained.held_out(2, queries={"t": [2.0, 1.0], "x": x})
    at = torch.tensor(x, dtype=torch.float64)
    start = held_out.functions["u0"](at[None, :, None])
    torch.testing.assert_close(held_out.truth["u"][:, 1], start, rtol=0, atol=1e-6)
    decayed = start * math.exp(-0.05 * math.pi**2)  # all waves have one period over [0, 2]
    torch.testing.assert_close(held_out.truth["u"][:, 0], decayed, rtol=0, atol=1e-6)


def test_scattered_points_are_no_grid(trained):
    with pytest.raises(UsageError, match="needs a grid"):
        trained.evaluate(2, at=[[1.0, 0.5]])


def test_what_is_written_says_that_it_has_other_points_and_sensors(trained, tmp_path):
    run = Run.load(shutil.copytree(trained.path, tmp_path / "r"))
    asked = {"at": {"t": [1.0], "x": [0.0, 0.5]}, "sensors": {"u0": (9, "uniform")}}
    run.evaluate(2, **asked)
    written = json.loads((run.path / "evaluation.json").read_text())["warnings"]
    assert any("those with at and sensors as asked for" in text for text in written)
    for found in (run.evaluate(2, **asked, write=False), run.evaluate(2)):
        assert not any("as asked for" in text for text in found["warnings"])


def test_no_samples_is_refused(trained):
    with pytest.raises(UsageError, match="not above zero"):
        trained.evaluate(0)


def test_the_operator_sees_nothing_but_the_sensors(trained):
    held_out = trained.held_out(2)
    blind = HeldOut(
        {},
        held_out.inputs,
        held_out.queries,
        held_out.truth,
        held_out.error_estimate,
        held_out.accepted,
    )
    one = predict_held_out(trained.problem, trained.model, held_out)["u"]
    assert torch.equal(one, predict_held_out(trained.problem, trained.model, blind)["u"])


def test_an_unwritable_evaluation_is_told(heat, tmp_path, monkeypatch):
    from piop.errors import TrainingError

    run = fit(heat, steps=1, out=tmp_path / "r", samples=0)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TrainingError, match="No space left"):
        run.evaluate(1)


def test_other_sensors_may_be_asked_for(trained):
    spec = trained.evaluate(4, write=False)["relative_l2"]["mean"]
    many = {"u0": (30, "uniform")}
    found = trained.evaluate(4, sensors=many, write=False)["relative_l2"]["mean"]
    assert found == pytest.approx(spec, rel=0.05)
    assert found != spec
    few = trained.evaluate(4, sensors={"u0": ([2], "grid")}, write=False)["relative_l2"]["mean"]
    assert few > 3 * spec


@pytest.mark.parametrize("method", ["evaluate", "held_out"])
def test_no_samples_are_refused(trained, method):
    with pytest.raises(UsageError, match="samples: 0 is not above zero"):
        getattr(trained, method)(0)


@pytest.mark.parametrize(
    ("sensors", "message"),
    [
        ({"v": (3, "grid")}, "'v' is not a visible input; one of u0"),
        ({"u0": (3, "anywhere")}, "sensors.u0: 'anywhere' is not .*; one of grid, uniform, "),
        ({"u0": ([3, 3], "grid")}, "sensors.u0: 2 counts were given for a grid of x"),
        ({"u0": 5}, "sensors.u0: 5 is not a pair of counts and placement; give such as"),
        ({"u0": (1.5, "grid")}, "sensors.u0: 1.5 is not a whole number"),
        ({"u0": (2**30, "uniform")}, r"sensors.u0: 1073741824 is not in \[1, 1000000\]"),
        ({"u0": ([2**10, 2**10], "uniform")}, "sensors.u0: 1024x1024 are more than 1000000"),
        ({"u0": (3, [])}, r"sensors.u0: \[\] is not a way"),
        ("25%", "sensors: '25%' is not a mapping"),
    ],
)
def test_sensors_that_cannot_be_placed_are_refused(trained, sensors, message):
    with pytest.raises(UsageError, match=message):
        trained.evaluate(2, sensors=sensors)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_samples_that_are_not_finite_are_left_out_and_counted(trained, value):
    held_out = trained.held_out(4)
    prediction = predict_held_out(trained.problem, trained.model, held_out)
    whole = module.compare_with_truth(trained.problem, held_out, prediction)
    truth = held_out.truth["u"].clone()
    truth[1, 2, 3] = value
    spoiled = {"u": prediction["u"].clone()}
    spoiled["u"][3, 0, 0] = value
    spoiled_truth = replace(held_out, truth={"u": truth})
    found = module.compare_with_truth(trained.problem, spoiled_truth, spoiled)
    kept = [whole["relative_l2"]["per_sample"][i] for i in (0, 2)]
    assert found["relative_l2"]["per_sample"] == pytest.approx(kept)
    assert found["relative_l2"]["mean"] == pytest.approx(sum(kept) / 2)
    assert found["samples"] == 2
    text = " ".join(found["warnings"])
    assert "1 of 4 reference solutions are not finite" in text
    assert "(sample 1)" in text
    assert "1 of 4 predictions are not finite" in text
    assert "(sample 3)" in text


def test_an_evaluation_without_a_finite_sample_is_written_and_read_again(
    trained, tmp_path, monkeypatch
):
    path = shutil.copytree(trained.path, tmp_path / "r")
    run = Run.load(path)
    for weights in run.model.operator.parameters():
        weights.data.fill_(float("nan"))
    found = run.evaluate(3)
    written = json.loads((path / "evaluation.json").read_text())
    assert written == found
    assert written["relative_l2"] is None
    assert set(written["residual"].values()) == {None}
    assert any("3 of 3 predictions are not finite" in w for w in written["warnings"])
    assert any("the residual of 16 of 16 inputs is not finite" in w for w in written["warnings"])
    assert "not finite" in error_table(written)
    assert draw_run(run)
    assert run.is_evaluated
    assert Run.load(path).evaluate(3)["relative_l2"]["mean"] > 0


def test_a_reference_error_that_is_not_finite_is_null(trained, tmp_path, monkeypatch):
    path = shutil.copytree(trained.path, tmp_path / "r")
    run = Run.load(path)
    held_out = run.held_out(2)
    doubtful = replace(held_out, error_estimate=torch.tensor([float("inf"), 0.0]))
    found = judged_samples(run, doubtful)
    monkeypatch.setattr("piop.run.drawn_inputs.DrawnInputs.judging", lambda *_: found)
    run.evaluate(2)
    written = json.loads((path / "evaluation.json").read_text())
    assert written["reference"]["error_estimate"] is None
    assert written["relative_l2"]["mean"] > 0
    assert "reference itself" not in error_table(written)


@pytest.mark.parametrize("method", ["evaluate", "held_out", "discretisation"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": 1.5}, "samples: 1.5 is not a whole number"),
        ({"samples": "3"}, "samples: '3' is not a whole number"),
        ({"samples": float("nan")}, "samples: nan is not a whole number"),
        ({"seed": -1}, "seed: -1 is not in"),
        ({"seed": 2**40}, "seed: 1099511627776 is not in"),
        ({"seed": "a"}, "seed: 'a' is not a whole number"),
        ({"data": 3}, "data: 3 is not a path"),
        ({"data": {}}, "data: {} is not a path"),
    ],
)
def test_wrong_arguments_of_an_evaluation_are_refused(trained, method, arguments, message):
    with pytest.raises(UsageError, match=message):
        getattr(trained, method)(**arguments)


@pytest.mark.parametrize("method", ["evaluate", "discretisation"])
def test_writing_is_wanted_or_not(trained, method):
    with pytest.raises(UsageError, match="write: 'no' is neither"):
        getattr(trained, method)(samples=1, write="no")


def test_the_mean_residual_is_evaluated_a_few_inputs_at_a_time(trained, monkeypatch):
    sizes, residual_at_points = [], module.residual_at_points

    def counting(*given):
        residual = residual_at_points(*given)
        return lambda queries: sizes.append(queries.shape[0]) or residual(queries)

    monkeypatch.setattr(module, "residual_at_points", counting)
    found, _ = module.mean_residual(trained.problem, trained.model, trained.config, 0)
    assert sizes == [4, 4, 4, 4]
    monkeypatch.setattr(module, "RESIDUAL_AT_ONCE", 16)
    whole, _ = module.mean_residual(trained.problem, trained.model, trained.config, 0)
    assert found == pytest.approx(whole, rel=1e-5)
