"""Problems, runs and evaluations show themselves in a notebook, and training shows one bar."""

from __future__ import annotations

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

import piop
from piop.job_phases import JobPhase
from piop.run import Run
from piop.run.evaluation_result import Evaluation
from piop.run.folder import EVALUATION
from piop.run.notebook_progress import NotebookProgress, in_notebook
from piop.training.config import BudgetConfig
from tests.small_heat import HEAT

ATTACK = r"<img src=x onerror=alert(1)> $\href{javascript:alert(1)}{x}$"
FEW = {"device": "cpu", "precision": "float64", "samples": 0, "calibrate": 0, "threads": 1}
IMAGE = '<img src="data:image/png;base64,iVBOR'


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained.path, tmp_path / "run")


def test_a_run_shows_what_it_is_its_errors_and_its_fields(trained):
    html = trained._repr_html_()
    for text in ("small_heat", "dt(u) = 0.05*dxx(u)", "pit, ", "250 steps in ", str(trained.path)):
        assert text in html, text
    error = json.loads((trained.path / EVALUATION).read_text())["relative_l2"]
    assert f"{error['mean']:.4g} ± {error['std']:.2g}" in html
    assert html.count(IMAGE) == 1
    assert repr(trained) == f"Run(small_heat, pit, '{trained.path}')"


def test_a_loaded_run_shows_the_figure_of_its_folder_and_evaluates_nothing(copy, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda *a, **k: pytest.fail("evaluates"))
    monkeypatch.setattr(Run, "plot", lambda *a, **k: pytest.fail("draws"))
    assert IMAGE not in Run.load(copy)._repr_html_()
    (copy / "figures").mkdir(exist_ok=True)
    (copy / "figures" / "predictions.png").write_bytes(b"\x89PNG\r\n")
    assert IMAGE in Run.load(copy)._repr_html_()


def test_a_run_that_is_not_evaluated_or_is_damaged_says_so(copy):
    run = Run.load(copy)
    (copy / EVALUATION).write_text("{")
    assert "evaluation.json: is damaged" in run._repr_html_()
    (copy / EVALUATION).unlink()
    assert "Not evaluated yet: run.evaluate()" in run._repr_html_()


def test_nothing_of_a_spec_is_read_as_html_or_mathematics(tmp_path):
    spec = HEAT.replace("name: small_heat", f"name: small_heat\ntitle: '{ATTACK}'")
    problem = piop.Problem.from_yaml(spec)
    run = problem.fit(steps=1, out=tmp_path / "r<b>", **FEW)
    evaluation = Evaluation({"samples": 1, "data": ATTACK, "warnings": [ATTACK]})
    evaluation["relative_l2"] = {"mean": 0.1, "std": 0.0, "per_sample": [0.1]}
    for html in (problem._repr_html_(), run._repr_html_(), evaluation._repr_html_()):
        assert "<img src=x" not in html
        assert r"$\href" not in html
        assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "r&lt;b&gt;" in run._repr_html_()


def test_an_evaluation_is_a_dict_that_shows_a_table(trained):
    found = trained.evaluate(2, write=False)
    assert isinstance(found, dict)
    assert json.loads(json.dumps(found)) == found == dict(found)
    html = found._repr_html_()
    assert "<b>Relative L2 error on 2 held-out inputs</b>" in html
    assert f"{found['relative_l2']['mean']:.4g} ± " in html
    assert "stays at u0" in html
    assert "Trained 250 steps" in html
    without = Evaluation({"relative_l2": None, "warnings": ["no reference"]})._repr_html_()
    assert "Warning: no reference" in without
    assert "<table>" not in without


def test_predictions_are_plotted_with_names_and_units(trained, heat):
    inputs = heat.sample(2)
    grid = trained.predict(inputs, {"t": [1.0, 2.0], "x": [0.1, 0.2, 0.3]})
    points = trained.predict(inputs, torch.tensor([[1.0, 0.1], [2.0, 0.2]]))
    for found in (grid, points):
        named = {n: (a.attrs["long_name"], a.attrs["units"]) for n, a in found.coords.items()}
        assert named == {"t": ("t", "s"), "x": ("x", "m")}
        assert found["u"].attrs == {"long_name": "u", "units": "K"}
        assert all("long_name" in found[n].attrs for n in found.data_vars)
    (line,) = grid["u"].isel(sample=0, t=0).plot()
    assert line.axes.get_xlabel() == "x [m]"
    assert line.axes.get_ylabel() == "u [K]"
    grid["u"].isel(sample=0).plot(ax=(axes := line.axes.figure.add_subplot()))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "t [s]")


class Handle:
    def __init__(self, shown):
        self.states = [shown.data]

    def update(self, shown):
        self.states.append(shown.data)


@pytest.fixture
def kernel(monkeypatch):
    """Stand for a Jupyter kernel; give the displays that are made."""
    displays = []

    def display(shown, display_id):
        assert display_id is True
        displays.append(Handle(shown))
        return displays[-1]

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    html = SimpleNamespace(HTML=lambda data: SimpleNamespace(data=data), display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", html)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    return displays


def test_a_notebook_is_recognised_by_its_kernel(kernel, monkeypatch):
    assert in_notebook()
    monkeypatch.setattr(sys.modules["IPython"].get_ipython(), "kernel", None)
    assert not in_notebook(), "IPython in a terminal"
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_training_in_a_notebook_shows_one_bar(kernel, heat, tmp_path, capsys):
    heat.fit(steps=30, out=tmp_path / "r", **FEW)
    assert len(kernel) == 1
    states = kernel[0].states
    assert states[0] == '<progress max="1"></progress> preparing'
    assert states[-1].startswith('<progress max="1" value="1.000"></progress> Seconds: preparing')
    assert len(states) < 30
    assert capsys.readouterr().out == ""
    heat.fit(steps=1, out=tmp_path / "other", progress=lambda row: None, **FEW)
    assert len(kernel) == 1, "what is given to show the progress takes the place of the bar"


def test_the_bar_follows_budget_and_references(kernel, monkeypatch):
    monkeypatch.setattr("piop.run.notebook_progress.EVERY", 0.0)
    bar = NotebookProgress()
    bar.enter(JobPhase.COMPILING, "about 18 s")
    bar.budget = BudgetConfig(steps=40)
    bar.enter(JobPhase.TRAINING)
    bar({"step": 10, "loss": 0.5, "seconds": 3.0, "inferred/nu": 0.01})
    bar.enter(JobPhase.EVALUATING)
    bar.advance(3, 4, "references")
    assert kernel[0].states[0].endswith("compiling (about 18 s)")
    assert '<progress max="1" value="0.250"></progress> training: step 10, loss 5.000e-01, ' in (
        "\n".join(kernel[0].states)
    )
    assert "nu 0.01, 3 s" in "\n".join(kernel[0].states)
    assert kernel[0].states[-1] == (
        '<progress max="1" value="0.750"></progress> evaluating: 3 of 4 references'
    )


def test_states_of_the_bar_come_at_most_five_times_a_second(kernel):
    bar = NotebookProgress()
    bar.enter(JobPhase.TRAINING)
    for step in range(1, 1000):
        bar({"step": step, "loss": 0.5, "seconds": 0.0})
    assert len(kernel[0].states) <= 3
