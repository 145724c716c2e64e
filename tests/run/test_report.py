"""The report of a run: its numbers are those of the evaluation, and no text of it is code."""

import errno
import re
import shutil

import numpy as np
import pytest

from piop.errors import DataError, PiopError, UsageError
from piop.generation import generate
from piop.problem import Problem
from piop.report import figures
from piop.run import Run, fit, resume
from piop.run.drawn_inputs import DrawnInputs
from piop.web import unpack
from tests.report_page import data_of, text_of
from tests.small_heat import HEAT


@pytest.fixture
def copy(trained, tmp_path):
    return Run.load(shutil.copytree(trained.path, tmp_path / "r"))


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory):
    return trained.report(tmp_path_factory.mktemp("reports") / "r.html").read_text()


def test_the_numbers_are_those_of_the_evaluation(trained, page):
    known = trained.folder.read_json("evaluation.json")
    data, errors = data_of(page), np.array(known["relative_l2"]["per_sample"])
    assert np.allclose(unpack(data["samples"]["error"]), errors, rtol=1e-6)
    assert data["samples"]["numbers"] == list(range(1, 7))
    best, median, worst = data["rows"]
    assert best["error"] == pytest.approx(errors.min())
    assert (worst["error"], worst["number"]) == (pytest.approx(errors.max()), errors.argmax() + 1)
    assert median["error"] == pytest.approx(np.sort(errors)[3])
    over = unpack(data["overTime"]["mean"])
    assert np.allclose(over, known["per_time"]["relative_l2"], rtol=1e-5)
    truth, error = (unpack(data["fields"][k]["u"]) for k in ("reference", "error"))
    found = np.linalg.norm(error, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))
    assert np.allclose(found, [r["error"] for r in data["rows"]], rtol=1e-2)
    text = text_of(page)
    assert f"{known['relative_l2']['mean']:.3g}"[:5] in text
    assert "6 inputs that were not trained on" in text
    assert "“stays at u0”" in text


def test_all_inputs_are_shown_after_an_evaluation_of_fewer(trained):
    trained.evaluate(2, write=False)
    assert len(trained.shown(64).held_out.accepted) == 6
    assert len(trained.shown(4).held_out.accepted) == 4


def test_the_page_says_what_was_solved_and_how(trained, page):
    text = text_of(page)
    assert "dt(u) = 0.05*dxx(u)" in text
    assert "<msub><mi>u</mi>" in page
    assert "hard constraint" in text
    assert "piop solve spec.yaml --backbone pit --steps 250 --seed 0 --precision float64" in text
    assert trained.folder.read_config()["hash"] in text
    assert "sympy" in text
    for word in ("functions", "learning_rate", "statistics"):
        assert word in text


def test_the_page_loads_nothing_and_is_small(page):
    assert len(page.encode()) < 5e6
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|iframe|object|base)\b", page)
    assert "<script src" not in page


def test_texts_of_a_spec_are_never_markup(tmp_path):
    attack = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    spec = HEAT + f'title: "{attack}"\nsource: "{attack}"\n'
    run = fit(Problem.from_yaml(spec), steps=1, out=tmp_path / "a&b<i>", samples=0, device="cpu")
    page = run.report().read_text()
    assert "alert(1)</script><img" not in page
    assert page.count("<script") == 3
    assert "<img" not in page
    assert attack in text_of(page)
    assert "a&b<i>" not in page


def test_a_run_that_is_not_evaluated_says_how(tmp_path):
    run = fit(Problem.from_yaml(HEAT), steps=1, out=tmp_path / "r", samples=0, device="cpu")
    page = run.report().read_text()
    assert f"piop evaluate {run.path}" in text_of(page)
    assert "fields" not in data_of(page)
    assert data_of(page)["training"] is not None


def test_a_run_without_a_reference_says_so(copy):
    known = copy.folder.read_json("evaluation.json")
    warnings = ["no reference to compare with: <none>"]
    copy.folder.write_json("evaluation.json", known | {"relative_l2": None, "warnings": warnings})
    text = text_of(copy.report().read_text())
    assert "No reference solution was compared with" in text
    assert warnings[0] in text


def test_a_calibrated_run_shows_bounds_beside_errors(copy):
    text = text_of(copy.report().read_text())
    assert "No error bounds were learned" in text
    learned = copy.calibrate(60)
    page = copy.report().read_text()
    data, text = data_of(page), text_of(page)
    bound, error = unpack(data["calibration"]["bound"]), unpack(data["calibration"]["error"])
    assert len(bound) == learned.count == 40
    assert (error <= bound * (1 + 1e-6)).mean() >= 0.9  # by the choice of the quantile
    assert np.allclose(error, (learned.joint * learned.indicators).numpy(), rtol=1e-6)
    own = unpack(data["samples"]["bound"])
    known = np.isfinite(own)
    within = int((unpack(data["samples"]["largest"]) <= own)[known].sum())
    assert f"It held for {within} of {known.sum()} held-out inputs" in text
    assert "90 % confidence" in text
    assert copy.plot("bound_over_error").axes[0].get_lines()


def test_a_calibration_of_before_has_no_pairs(copy):
    copy.calibrate(60)
    found = copy.folder.read_json("calibration.json")
    copy.folder.write_json(
        "calibration.json", {k: v for k, v in found.items() if k != "indicators"}
    )
    assert data_of(copy.report().read_text())["calibration"] is None


def test_an_operator_of_no_use_is_called_that(copy):
    known = copy.folder.read_json("evaluation.json")
    worse = {"mean": 2.0, "std": 0.1, "per_sample": [2.0] * 6}
    copy.folder.write_json("evaluation.json", known | {"relative_l2": worse})
    assert "this operator is of no use as it is" in text_of(copy.report().read_text())


def test_references_and_predictions_are_not_made_again_for_the_report(copy, monkeypatch):
    copy.evaluate(4)
    monkeypatch.setattr("piop.run.references.solve_reference", None)
    monkeypatch.setattr("piop.run.evaluation.predict_held_out", None)
    assert data_of(copy.report().read_text())["samples"]["numbers"] == [1, 2, 3, 4]


def test_figures_and_report_share_one_comparison(copy, monkeypatch):
    copy.evaluate(4)
    calls, compare = [], figures.compare
    monkeypatch.setattr(figures, "compare", lambda *a: calls.append(a) or compare(*a))
    *drawn, report = figures.draw_run(copy)
    assert (len(calls), report) == (1, copy.path / "report.html")
    assert drawn[0].name == "losses.png"


def test_an_existing_file_is_kept(copy, tmp_path):
    (path := tmp_path / "r.html").write_text("mine")
    with pytest.raises(UsageError, match=r"r\.html: exists already"):
        copy.report(path)
    assert path.read_text() == "mine"
    assert copy.report(path, force=True).read_text().startswith("<!DOCTYPE html>")
    copy.report()
    assert copy.report() == copy.path / "report.html"  # its own is replaced


def test_data_that_cannot_be_used_leave_the_report(copy, tmp_path):
    before = copy.report().read_bytes()
    with pytest.raises(DataError, match="no such file"):
        copy.report(data=tmp_path / "none.nc")
    assert (copy.path / "report.html").read_bytes() == before


def test_a_full_disk_keeps_the_last_report(copy, monkeypatch):
    kept = copy.report().read_bytes()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(PiopError, match=r"report\.html: .*No space left on device"):
        copy.report()
    assert (copy.path / "report.html").read_bytes() == kept


def test_the_command_makes_the_same_settings(tmp_path, heat):
    """What the report prints gives the configuration of the run again."""
    from piop.cli.solve import parse_settings
    from piop.report.settings_section import command
    from piop.run.configuration import configure
    from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig

    settings = {"width": 16, "learning_rate": 3e-3, "weighting": "causal", "causal": 2.0}
    machine = MachineConfig(device="cpu", threads=1, seed=3)
    start = TrainingConfig(BudgetConfig(time=90.0), machine=machine)
    config = configure(heat, start, None, settings)
    words = command(heat, config, {"path": "my data.nc"}).split(" --set ")
    assert words[0] == (
        "piop solve spec.yaml --backbone pit --time 90s --seed 3 --precision float32 --device cpu "
        "--threads 1 --data 'my data.nc'"
    )
    assert configure(heat, start, None, parse_settings(tuple(words[1:]))) == config
    assert command(heat, config, None, "/runs/first").split(" --set ")[0].endswith("first")


def test_the_command_gives_settings_that_a_lattice_would_choose_otherwise(heat):
    from piop.report.settings_section import command
    from piop.run.configuration import configure
    from piop.training.choices import settings_of_form
    from piop.training.config import BudgetConfig, TrainingConfig

    start = TrainingConfig(BudgetConfig(steps=2))
    given, chosen = (configure(heat, start, None, {"clip": clip}) for clip in (10.0, 0.01))
    of_form = settings_of_form(given, [7, 16], potential=False, data=False)
    assert "--set clip=10.0" in command(heat, given, None, of_form=of_form)
    assert "--set clip" not in command(heat, given, None)
    assert "--set clip" not in command(heat, chosen, None, of_form=of_form)


def test_gradients_of_squares_are_limited_more_than_those_of_roots(heat):
    from piop.run.configuration import configure
    from piop.training.choices import settings_of_form
    from piop.training.config import BudgetConfig, TrainingConfig

    def limit(data=False, **settings):
        config = configure(heat, TrainingConfig(BudgetConfig(steps=2)), None, settings)
        usual = settings_of_form(config, (), potential=False, data=data)
        return usual.get("clip", config.optimiser.clip)

    assert limit() == 10
    assert limit(data=True) == limit(root=False) == limit(weighting="ntk") == 1
    assert limit(weighting="ntk_local") == 10


def test_the_limit_of_squares_is_that_of_a_run_and_of_its_command(heat, tmp_path):
    from piop.report.settings_section import command
    from piop.training.choices import settings_of_form

    settings = {"root": False, "functions": 2}
    run = fit(heat, steps=1, settings=settings, out=tmp_path / "r", samples=0, device="cpu")
    assert run.config.optimiser.clip == 1
    usual = settings_of_form(run.config, (), potential=False, data=False)
    assert "clip" not in command(heat, run.config, None, of_form=usual)
    given = fit(heat, steps=1, settings=settings | {"clip": 3}, out=tmp_path / "g", samples=0)
    assert given.config.optimiser.clip == 3


def test_a_study_of_fewer_steps_is_not_shown_as_that_of_the_run(heat, tmp_path):
    run = fit(heat, steps=2, out=tmp_path / "r", samples=1, calibrate=0, device="cpu")
    run.discretisation("50%", samples=1)
    assert data_of(run.report().read_text())["discretisation"]
    run = resume(run.path, steps=3, samples=1, calibrate=0)
    assert not data_of(run.report().read_text())["discretisation"]
    with pytest.raises(UsageError, match="a discretisation study"):
        run.plot("discretisation")


def test_references_are_solved_in_bounded_time_after_an_evaluation_on_data(
    copy, heat, tmp_path, monkeypatch
):
    given = []
    judging = DrawnInputs.judging

    def noted(own, judge, seconds=None, progress=None):
        given.append(seconds)
        return judging(own, judge, seconds, progress)

    generate(heat, 2, tmp_path / "d.nc")
    copy.evaluate(data=tmp_path / "d.nc")
    monkeypatch.setattr(DrawnInputs, "judging", noted)
    Run.load(copy.path).report()
    assert given == [copy._seconds_of_evaluation]


def test_a_resumed_run_that_is_interrupted_is_reported(heat, tmp_path):
    run = fit(heat, steps=2, out=tmp_path / "r", samples=2, calibrate=0, device="cpu")
    run = resume(run.path, steps=3, samples=0)
    assert "The errors of this run are not known yet" in text_of(run.report().read_text())
