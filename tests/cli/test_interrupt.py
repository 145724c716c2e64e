"""A run that is stopped, politely or not, goes on as if it had not been."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

SMALL = ["--set", "functions=2", "--set", "queries=16", "--no-compile", "--device", "cpu"]


def start(*arguments):
    command = [sys.executable, "-m", "piop", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, seconds=120.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


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
