"""Commands in several processes: one folder, one file, one voice, one exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from piop.problem import Problem
from piop.run import fit, resume

HEAT = """
piop: 1
name: small_heat
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = 0.01*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
solve: {backbone: pit, width: 8, blocks: 1, heads: 2}
"""
SMALL = ["--set", "functions=3", "--set", "queries=16", "--no-compile", "--device", "cpu"]
LONG = ["--steps", 100000, "--set", "checkpoint=0.2", *SMALL]


@pytest.fixture(scope="module")
def heat(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "small_heat.yaml"
    path.write_text(HEAT)
    return path


def wait_for(path, seconds=120.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


def goes_on(run):
    """Resume in one process for a few steps more; up to nine after the last row were taken."""
    rows = (run / "metrics.jsonl").read_text().splitlines()
    last = json.loads(rows[-1])["step"]
    resume(run, steps=last + 15, samples=0)
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"] == last + 15


def test_data_of_two_processes_are_those_of_one_to_the_last_bit(together, piop, heat, tmp_path):
    arguments = ("data", heat, "-n", 40, "--seed", 3, "--output")  # 16, 16 and 8 samples
    assert piop(*arguments, tmp_path / "one.nc")[0] == 0
    first, second = together.run(2, "-m", "piop", *arguments, tmp_path / "two.nc", "--json")
    assert (first[0], second[0]) == (0, 0)
    assert '"samples": 40' in first[1]
    assert "40 of 40 samples" in first[2]
    assert second[1:] == ("", "")
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()


def test_two_processes_write_one_run_folder_with_the_weights_of_one(together, heat, tmp_path):
    settings = {"functions": 3, "queries": 16}
    options = {"device": "cpu", "precision": "float64", "threads": 1, "compile": False}
    problem, one = Problem.from_file(heat), tmp_path / "one"
    fit(problem, steps=4, out=one, samples=0, settings=settings, **options)
    arguments = ("solve", heat, "--steps", 4, "--precision", "float64", "--threads", 1, *SMALL)
    first, second = together.run(2, "-m", "piop", *arguments, "--out", tmp_path / "two")
    assert (first[0], second[0]) == (0, 0), first
    assert second[1:] == ("", "")
    assert first[1].count("Relative L2 error on 64 held-out") == 1
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all((one[name] - two[name]).abs().max() < 1e-9 for name in one)
    assert (tmp_path / "two" / "evaluation.json").exists()


def test_an_error_of_all_is_told_once_and_begins_nothing(together, heat, tmp_path):
    run = tmp_path / "r"
    ends = together.run(2, "-m", "piop", "solve", heat, "--out", run, "--set", "functions=1")
    assert [code for code, _, _ in ends] == [2, 2]
    told = ends[0][2] + ends[1][2]
    assert told.count("functions: 1 for 2 processes; each needs at least one") == 1
    assert "Traceback" not in told
    assert not run.exists()


def test_an_error_of_one_ends_all_with_its_exit_code(together, heat, tmp_path):
    """The second process finds no spec; the first waits for its samples."""
    script = """
import os, sys
from piop.cli import main
spec = "heat" if os.environ["RANK"] == "0" else "nowhere.yaml"
main(["data", spec, "-n", "40", "--output", sys.argv[1]])
"""
    ends = together.run(2, "-c", script, tmp_path / "d.nc")
    assert [code for code, _, _ in ends] == [2, 2]
    assert ends[0][2] == ""
    assert "nowhere.yaml" in ends[1][2]
    assert not (tmp_path / "d.nc").exists()


def test_commands_that_share_no_work_are_run_by_the_first(together, heat):
    first, second = together.run(2, "-m", "piop", "check", heat)
    assert (first[0], second[0]) == (0, 0)
    assert "heat" in first[1]
    assert second[1:] == ("", "")


def test_a_killed_process_ends_the_others_with_a_checkpoint_to_go_on_from(together, heat, tmp_path):
    run = tmp_path / "r"
    first, second = together.start(2, "-m", "piop", "solve", heat, "--out", run, *LONG)
    wait_for(run / "model.safetensors")
    second.kill()
    _, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "another process of this run has ended" in err
    assert "the checkpoint of step" in err
    assert f"piop resume {run}" in err
    assert "Traceback" not in err
    goes_on(run)


def test_asking_one_process_to_stop_stops_all_after_the_same_step(together, heat, tmp_path):
    run = tmp_path / "r"
    started = together.start(2, "-m", "piop", "solve", heat, "--out", run, *LONG)
    wait_for(run / "model.safetensors")
    started[1].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [130, 130]
    assert f"interrupted; saved. Continue with: piop resume {run}" in said[0][1]
    assert said[1] == ("", "")
    goes_on(run)


QUICK = """
import sys
from piop.cli import main
from piop.training import distributed
distributed.PATIENCE, distributed.BEAT = 10.0, 0.25
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2])
def test_a_stopped_process_ends_the_others_and_is_named(together, heat, tmp_path, rank):
    run = tmp_path / "r"
    started = together.start(3, "-c", QUICK, "solve", heat, "--out", run, *LONG)
    wait_for(run / "model.safetensors")
    stopped = started.pop(rank)
    stopped.send_signal(signal.SIGSTOP)
    said = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [1, 1]
    assert f"rank {rank} of this run hangs or cannot be reached" in said[0]
    assert "the checkpoint of step" in said[0]
    assert f"piop resume {run}" in said[0]
    assert said[1] == ""
    goes_on(run)
    stopped.send_signal(signal.SIGCONT)
    stopped.communicate(timeout=60)
    assert stopped.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_stops_while_others_wait_for_its_samples_is_named(
    together, heat, tmp_path, rank
):
    """However long a batch takes: what a stopped process misses is its heartbeats."""
    output = tmp_path / "d.nc"
    arguments = ("data", heat, "-n", 100000, "--output", output)
    started = together.start(2, "-c", QUICK, *arguments)
    wait_for(tmp_path / "d.nc.parts" / "000000000-000000016.safetensors")
    started[rank].send_signal(signal.SIGSTOP)
    _, err = started[1 - rank].communicate(timeout=60)
    assert started[1 - rank].returncode == 1
    assert f"rank {rank} of this run hangs or cannot be reached" in err
    assert "Traceback" not in err


def children(pid):
    """Processes that a process has started."""
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_under_torchrun_a_killed_process_ends_all_within_a_minute(heat, tmp_path):
    run = tmp_path / "r"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", "2", "-m", "piop", "solve", heat, "--out", run]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*map(str, command), *map(str, LONG)], stderr=subprocess.PIPE, text=True, env=environment
    ) as started:
        wait_for(run / "model.safetensors")
        os.kill(children(started.pid)[1], signal.SIGKILL)
        began = time.monotonic()
        _, err = started.communicate(timeout=120)
    assert time.monotonic() - began < 60
    assert started.returncode == 1
    assert f"piop resume {run}" in err
    goes_on(run)
