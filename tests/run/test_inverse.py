"""Inverse operators: from data of the problem itself to permeabilities, with and without noise."""

import json
import logging

import pytest
import torch

from piop import generate
from piop.errors import UsageError
from piop.problem import Problem
from piop.run import Run, fit, resume
from tests.report_page import data_of, text_of

TEXT = (
    Problem.from_file("darcy_inverse")
    .to_yaml()
    .replace("211", "17")
    .replace("71", "17")
    .replace("[0.0, 0.01, 0.1]", "[0, 0.1, 3]")
)
SMALL = {"backbone": "fno", "settings": {"width": 12, "modes": 6}, "device": "cpu"}
LEVELS = ["0", "0.1", "3"]


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(TEXT)


@pytest.fixture(scope="module")
def data(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "darcy.nc"
    assert generate(problem, 40, path, tolerance=0.05)["above_tolerance"] == 0
    return path


@pytest.fixture(scope="module")
def run(problem, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "inverse"
    return fit(problem, steps=60, data=data, out=out, samples=4, **SMALL)


@pytest.fixture(scope="module")
def evaluation(run):
    return json.loads((run.path / "evaluation.json").read_text())


def test_it_is_learned_better_than_the_mean_of_the_permeabilities(evaluation):
    error = evaluation["relative_l2"]["mean"]
    assert error < 0.85 * evaluation["baselines"]["mean of the others"]
    assert not evaluation["warnings"]


def test_the_error_is_told_at_every_level_of_noise(evaluation):
    found = evaluation["noise"]
    assert list(found) == LEVELS
    assert found["0"] == evaluation["relative_l2"]
    assert found["0.1"]["per_sample"] != found["0"]["per_sample"]
    assert found["3"]["mean"] > 1.02 * found["0"]["mean"]  # three deviations bury the solution


def test_it_is_a_run_like_any_other(run, data, evaluation):
    again = Run.load(run.path)
    assert again.problem == run.problem
    assert again.problem.unknowns == ("a",)
    seen = {"u": torch.zeros(17, 17)}
    assert again.predict(seen).a.equals(run.predict(seen).a)
    assert again.predict(seen).a.dims == ("sample", "x", "y")
    assert again.evaluate(samples=4, write=False)["noise"] == evaluation["noise"]


def test_noise_follows_from_the_seed_and_survives_a_stop(problem, data, tmp_path):
    def stop(row):
        if row["step"] >= 3:
            raise KeyboardInterrupt

    rows = []
    for name, progress in (("whole", None), ("part", stop)):
        found = fit(problem, steps=6, data=data, out=tmp_path / name, samples=0,
                    progress=progress, **SMALL)  # fmt: skip
        found = resume(tmp_path / name, samples=0) if found.interrupted else found
        rows.append([{k: v for k, v in row.items() if k != "seconds"} for row in found.metrics])
    assert rows[0] == rows[1]


def test_networks_that_answer_at_points_see_the_noise_too(problem, data, tmp_path):
    sizes = {"width": 8, "blocks": 1, "heads": 2, "data_functions": 2, "data_queries": 8}
    quiet = Problem.from_yaml(TEXT.replace("[0, 0.1, 3]", "[0.0]"))
    losses = []
    for k, spec in enumerate((problem, quiet)):
        found = fit(spec, steps=4, data=data, backbone="pit", out=tmp_path / str(k), samples=0,
                    device="cpu", settings=sizes)  # fmt: skip
        losses.append([row["loss"] for row in found.metrics])
    assert losses[0] != losses[1]


def test_without_data_it_is_said_how_to_make_them(problem, tmp_path):
    with pytest.raises(UsageError, match=r"learn: from u to a: .*piop data darcy_inverse -n 1000"):
        fit(problem, steps=1, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_data_of_the_problem_are_known_as_those_of_its_inverse(problem, data, caplog):
    from piop.datasets import read_dataset

    with caplog.at_level(logging.WARNING):
        read_dataset(data, problem.inverse())
        assert not caplog.records
        read_dataset(data, Problem.from_yaml(TEXT.replace("12, 3", "12, 4")).inverse())
        assert not caplog.records  # the law of what is sought does not say what is learned
        read_dataset(data, Problem.from_yaml(TEXT.replace("3]", "4]")).inverse())
    assert "another version of the spec" in caplog.text


def test_its_report_shows_permeabilities_and_every_level_of_noise(run, evaluation):
    page = run.report().read_text()
    assert [u["name"] for u in data_of(page)["fields"]["unknowns"]] == ["a"]
    text = text_of(page)
    for level in ("0 %", "10 %", "300 %"):
        assert level in text
    assert "the operator from u to a" in text or "learn" in text
