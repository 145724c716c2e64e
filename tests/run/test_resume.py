"""A run killed at any moment goes on to the same numbers, in real processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import sys
from piop.problem import Problem
from piop.run import fit, resume
spec, out, steps, action = sys.argv[1:]
settings = {"checkpoint": 0.05, "average": 0.9, "lbfgs": 0.4}
if action == "fit":
    problem = Problem.from_file(spec)
    fit(problem, steps=int(steps), out=out, samples=0, threads=1, device="cpu", settings=settings)
else:
    resume(out, samples=0)
"""
STEPS = 160


def start(spec, out, action="fit"):
    arguments = [sys.executable, "-c", SCRIPT, str(spec), str(out), str(STEPS), action]
    return subprocess.Popen(
        arguments, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def finish(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()


def numbers(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def progress(folder):
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


def kill_at(process, folder, size):
    """Kill once the metrics have grown to a size, which in general is no checkpoint."""
    while process.poll() is None and progress(folder) < size:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def whole(heat, tmp_path_factory):
    """A run that was never killed."""
    folder = tmp_path_factory.mktemp("whole")
    spec = folder / "heat.yaml"
    spec.write_text(heat.to_yaml())
    finish(start(spec, folder / "run"))
    return spec, folder / "run"


def killed_and_resumed(whole, folder, seed, kills):
    spec, reference = whole
    random.seed(seed)
    size = progress(reference)
    points = sorted(random.uniform(0, 0.98) for _ in range(kills))
    process = start(spec, folder)
    for point in points:
        kill_at(process, folder, point * size)
        if not (folder / "config.json").exists():  # killed before there was anything to resume
            process = start(spec, folder)
        else:
            process = start(spec, folder, "resume")
    finish(process)
    assert numbers(folder) == numbers(reference)
    assert (folder / "model.safetensors").read_bytes() == (
        reference / "model.safetensors"
    ).read_bytes()


def test_a_kill_changes_no_bit(whole, tmp_path):
    killed_and_resumed(whole, tmp_path / "run", seed=0, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_three_kills_at_random_moments_change_no_bit(whole, tmp_path, seed):
    killed_and_resumed(whole, tmp_path / "run", seed, kills=3)
