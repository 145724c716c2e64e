"""The table's bookkeeping: nothing is trained twice, nothing finished is lost."""

import json
import sys

import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.problem import Problem


@pytest.fixture
def table(load, monkeypatch, tmp_path):
    """The script with training and judging replaced: returns a caller and the cells trained."""
    script, cells = load("pit_table"), load("table.cells")
    trained, trouble = [], {}

    def run_cell(cell, *rest):
        if str(cell) in trouble:
            raise trouble[str(cell)]
        trained.append(str(cell))
        view = next(iter(load("table.entries").ENTRIES[cell.problem].views))
        return {
            **vars(cell),
            "relative_l2": {view: {"mean": 0.1 + cell.seed, "std": 0.3 * cell.seed}},
            "seconds": 1.0,
            "steps": 5,
            "parameters": 7,
        }

    def protocol(name, problem, judges):
        views = load("table.entries").ENTRIES[name].views
        return {"judged_on": {view: {"best_possible": {"mean": 0.01}} for view in views}}

    monkeypatch.setattr(script, "run_cell", run_cell)
    monkeypatch.setattr(script, "judges_of", lambda *words: [])
    monkeypatch.setattr(script, "protocol", protocol)
    out = tmp_path / "r.json"

    def call(*words):
        arguments = ["pit_table.py", "--scale", "cpu", "--out", str(out), *words]
        monkeypatch.setattr(sys, "argv", arguments)
        trained.clear()
        return script.main()

    call.trained, call.trouble, call.out, call.cells = trained, trouble, out, cells
    return call


def rest(seed):
    """The cells of PIT after the problems of its paper."""
    names = ("burgers_wang", "diffusion_reaction", "advection_wang")
    return [f"{name}/pit/{seed}" for name in names]


def test_one_seed_of_every_cell_comes_first(load):
    cells = load("table.cells").plan(["pit", "heat2d/deeponet"], [0, 1])
    assert [str(cell) for cell in cells] == [
        "burgers/pit/0",
        "heat2d/pit/0",
        "heat2d/deeponet/0",
        *rest(0),
        "burgers/pit/1",
        "heat2d/pit/1",
        "heat2d/deeponet/1",
        *rest(1),
    ]
    with pytest.raises(UsageError, match=r"'burger' is no cell.*burgers, heat2d.*modified"):
        load("table.cells").plan(["burger"], [0])


def test_a_stopped_table_goes_on_with_the_missing_cells(table):
    table.trouble["burgers_wang/pit/0"] = table.cells.Interrupted()
    assert table("--cells", "pit", "--seeds", "0", "1") == 130
    assert table.trained == ["burgers/pit/0", "heat2d/pit/0"]
    assert len(json.loads(table.out.read_text())["cells"]) == 2
    table.trouble.clear()
    assert table("--cells", "pit", "--seeds", "0", "1") == 0
    assert table.trained == [
        *rest(0),
        "burgers/pit/1",
        "heat2d/pit/1",
        *rest(1),
    ]
    assert table("--cells", "pit") == 0
    assert table.trained == ["burgers/pit/2", "heat2d/pit/2", *rest(2)]


def test_a_cell_that_fails_costs_no_other_and_is_tried_again(table, capsys):
    table.trouble["burgers/pit/0"] = TrainingError("the loss is NaN")
    assert table("--cells", "pit", "--seeds", "0") == 1
    assert "burgers/pit/0: failed: the loss is NaN" in capsys.readouterr().err
    assert table.trained == ["heat2d/pit/0", *rest(0)]
    table.trouble.clear()
    assert table("--cells", "pit", "--seeds", "0") == 0
    assert table.trained == ["burgers/pit/0"]


def test_figures_of_another_budget_are_not_mixed(table, capsys):
    assert table("--cells", "burgers/pit", "--seeds", "0") == 0
    before = table.out.read_text()
    assert table("--cells", "burgers/pit", "--seeds", "1", "--time", "5m") == 2
    assert "give --out FILE" in capsys.readouterr().err
    table.out.write_text("{}")
    assert table("--cells", "burgers/pit") == 2
    assert "no result of this script" in capsys.readouterr().err
    table.out.write_text(before)
    assert table("--time", "soon") == 2


def test_a_problem_that_is_added_leaves_the_others_as_they_are(table, capsys):
    assert table("--cells", "burgers/pit", "--seeds", "0") == 0
    found = json.loads(table.out.read_text())
    del found["setup"]["budget"]["steps"]["heat2d"]
    table.out.write_text(json.dumps(found))
    assert table("--cells", "burgers/pit") == 0
    assert table.trained == ["burgers/pit/1", "burgers/pit/2"]
    found["setup"]["budget"]["steps"]["burgers"]["pit"] += 1
    table.out.write_text(json.dumps(found))
    assert table("--cells", "burgers/pit") == 2
    assert "give --out FILE" in capsys.readouterr().err


def test_rows_hold_means_and_both_deviations(table):
    table("--cells", "burgers/pit")
    (row,) = json.loads(table.out.read_text())["table"]
    assert row["mean"] == pytest.approx(1.1)  # of 0.1, 1.1, 2.1
    assert row["over_seeds"] == pytest.approx(1.0)
    assert row["over_inputs"] == pytest.approx((0.15) ** 0.5)  # mean variance of 0, 0.3², 0.6²
    assert row["published"] == "0.044 ± 0.023"
    assert (row["floor"], row["seeds"], row["steps"]) == (0.01, 3, 5)


def test_errors_are_spread_as_they_should_be(load):
    found = load("table.cells").spread([4.0, 1.0, 2.0, 3.0])
    assert found == {"mean": 2.5, "std": pytest.approx((5 / 3) ** 0.5), "median": 2.5, "max": 4.0}


def test_judges_are_made_once_and_read_again(load, tmp_path):
    judges, entries = load("table.judges"), load("table.entries")
    problem = Problem.from_file("burgers_wang")
    made = []

    def make():
        made.append(judges.law_judges(problem, entries.ENTRIES["burgers_wang"], 2, full=False))
        return made[-1]

    (first,) = judges.cached(tmp_path, {"a": 1}, make)
    (again,) = judges.cached(tmp_path, {"a": 1}, make)
    assert len(made) == 1
    assert torch.equal(first.held_out.truth["u"], again.held_out.truth["u"])
    assert again.held_out.truth["u"].shape == (2, 21, 100)
    assert torch.equal(first.held_out.inputs["u0"].values, again.held_out.inputs["u0"].values)
    # 101 sensors determine a field of eighteen harmonics: the reference starts from the same input.
    assert float(again.floor.max()) < 1e-6
    judges.cached(tmp_path, {"a": 2}, make)
    assert len(made) == 2


def test_sensors_too_few_are_the_floor(load):
    judges, entries = load("table.judges"), load("table.entries")
    problem = Problem.from_file("heat2d")
    found = judges.law_judges(problem, entries.ENTRIES["heat2d"], 4, full=False)
    many, few = (float(judge.floor.mean()) for judge in found)
    assert many < 1e-6  # 400 sensors for 169 coefficients
    assert 5e-4 < few < 5e-3  # 144 sensors: what they leave open, less what has decayed


def test_training_is_taken_up_and_not_repeated(load, tmp_path):
    cells = load("table.cells")
    cell, problem = cells.Cell("burgers_wang", "pit", 0), Problem.from_file("burgers_wang")
    two, three = cells.Budget(steps=2, threads=1), cells.Budget(steps=3, threads=1)
    folder = tmp_path / "c"

    def written():
        return (folder / "config.json").stat().st_mtime_ns

    cells._trained(cell, problem, two, folder)
    first = written()
    cells._trained(cell, problem, two, folder)
    assert written() == first
    cells._trained(cell, problem, three, folder)
    assert written() > first
    found = cells.run_cell(cell, problem, [], three, tmp_path)
    assert (found["steps"], found["relative_l2"]) == (3, {})
