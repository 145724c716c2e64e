"""A run that is stopped, politely or not, goes on as if it had not been."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from piop.run import resume

SMALL = ["--set", "functions=2", "--set", "queries=16", "--no-compile", "--device", "cpu"]


def start(*arguments):
    command = [sys.executable, "-m", "piop", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, seconds=120.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


@pytest.fixture(params=["in the foreground", "in the background"])
def terminated(request, monkeypatch):
    """Let a function be left by SIGTERM, where Ctrl-C is heard and where shells have it ignored."""
    ignored = request.param == "in the background"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)

    def replace(place):
        monkeypatch.setattr(place, lambda *a, **k: signal.raise_signal(signal.SIGTERM))

    yield replace
    signal.signal(signal.SIGINT, before)


def last_line(err):
    assert err.count("piop: interrupted") == 1
    return err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("piop.problem.Problem.from_file", ["check", "heat"]),
        ("piop.problem.Problem.from_file", ["data", "heat", "-n", 1, "--output", "d.nc"]),
        ("piop.run.folder.RunFolder.require_replaceable", ["solve", "heat", "--out", "r"]),
        ("piop.generation._solve", ["data", "heat", "-n", 1, "--output", "d.nc"]),
    ],
)
def test_before_anything_is_kept_a_stop_says_so(
    place, arguments, terminated, piop, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    terminated(place)
    code, out, err = piop(*arguments)
    assert (code, out, last_line(err)) == (130, "", "piop: interrupted; nothing was written")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def ctrl_c_heard():
    """Let processes hear Ctrl-C where a shell that runs the tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_heard")
@pytest.mark.parametrize("module", ["click.core", "piop.cli", "numpy", "sympy.core"])
def test_an_interrupt_while_modules_are_imported_ends_without_a_traceback(module):
    command = [sys.executable, "-X", "importtime", "-m", "piop", "check", "heat"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    while process.stderr.readline().split("|")[-1].strip() != module:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    # Python leaves by the signal itself where it interrupted an exec; for shells that is 130 too
    assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize("terminated", ["in the background"], indirect=True)
@pytest.mark.parametrize(
    "place",
    ["piop.training.loop.trainer.Trainer.resume", "piop.run.evaluation.compare_with_truth"],
)
def test_a_run_stopped_beside_its_training_goes_on(place, terminated, piop, tmp_path, monkeypatch):
    run = tmp_path / "r"
    terminated(place)
    code, _, err = piop("solve", "heat", "--steps", 2, "--out", run, *SMALL)
    line = f"piop: interrupted; what was saved is in {run}. Go on with: piop resume {run}"
    assert (code, last_line(err)) == (130, line)
    monkeypatch.undo()
    resume(run, samples=2)
    assert json.loads((run / "evaluation.json").read_text())["steps"] == 2


@pytest.mark.parametrize("terminated", ["in the background"], indirect=True)
def test_a_run_stopped_in_its_calibration_goes_on_with_it(terminated, piop, tmp_path, monkeypatch):
    run = tmp_path / "r"
    terminated("piop.run.run.calibrate_model")
    few = ["--steps", 2, "--samples", 2, "--calibrate", 20]
    code, _, err = piop("solve", "heat", *few, "--out", run, *SMALL)
    again = f"piop resume {run} --calibrate 20"
    line = f"piop: interrupted; what was saved is in {run}. Go on with: {again}"
    assert (code, last_line(err)) == (130, line)
    monkeypatch.undo()
    assert piop(*again.split()[1:])[0] == 0
    assert {"calibration.json", "report.html"} <= {p.name for p in run.iterdir()}


def test_a_run_killed_before_its_report_has_one_after_a_resume(piop, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "r")
    (run / "report.html").unlink()
    code, _, err = piop("resume", run)
    assert (code, "nothing is left to do" in err) == (0, True)
    assert (run / "report.html").exists()


def test_a_finished_run_has_no_steps_to_profile(piop, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "r")
    (run / "evaluation.json").unlink()
    code, out, _ = piop("resume", run, "--samples", 2, "--profile")
    assert (code, "One step" in out) == (0, False)


def test_a_data_set_that_is_stopped_says_where_its_samples_are(
    terminated, piop, tmp_path, monkeypatch
):
    path = tmp_path / "d.nc"
    terminated("piop.generation._assemble")
    code, _, err = piop("data", "heat", "-n", 1, "--output", path)
    assert (code, last_line(err)) == (
        130,
        f"piop: interrupted; the solved samples are kept in {path}.parts: the same command "
        "continues from there",
    )
    monkeypatch.undo()
    assert piop("data", "heat", "-n", 1, "--output", path)[0] == 0


@pytest.mark.parametrize("terminated", ["in the background"], indirect=True)
def test_figures_that_were_not_drawn_are_told(terminated, piop, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "r")
    terminated("piop.report.draw_run")
    code, _, err = piop("evaluate", run, "--samples", 2)
    assert code == 130
    assert last_line(err).endswith(f"Write its report with: piop report {run}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_being_asked_to_stop_saves_and_says_how_to_go_on(number, piop, tmp_path):
    run = tmp_path / "r"
    process = start("solve", "heat", "--steps", 100000, "--out", run, *SMALL)
    wait_for(run / "metrics.jsonl")
    time.sleep(2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"piop resume {run}" in err
    assert "Traceback" not in err
    assert (run / "model.safetensors").exists()
    rows = (run / "metrics.jsonl").read_text().splitlines()
    last = json.loads(rows[-1])["step"]
    assert piop("resume", run, "--steps", last + 5)[0] == 0
    assert (run / "metrics.jsonl").read_text().splitlines()[: len(rows)] == rows


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(piop, tmp_path):
    options = ["--steps", 60, "--threads", 1, "--set", "checkpoint=0.01", *SMALL]
    process = start("solve", "heat", "--out", tmp_path / "killed", *options)
    wait_for(tmp_path / "killed" / "model.safetensors")
    process.kill()
    process.communicate()
    assert piop("resume", tmp_path / "killed")[0] == 0
    assert piop("solve", "heat", "--out", tmp_path / "whole", *options)[0] == 0
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("killed", "whole")]
    assert weights[0] == weights[1]
