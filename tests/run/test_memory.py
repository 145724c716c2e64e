"""Runs that run out of memory say what to lower, and go on with less."""

import json
import subprocess
import sys

import pytest
import torch

from piop.errors import OutOfMemory, UsageError
from piop.run import Run, fit, resume
from piop.training.loop.checkpoint import read_metrics
from piop.training.loop.run_files import RunFiles

LIMITED = """
import resource, sys
import torch
from piop.cli import cli
from piop.cli.failures import run_command
import piop.run
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 500 * 2**20,) * 2)
sys.exit(run_command(cli, sys.argv[1:]))
"""


def fails_at(step, monkeypatch):
    """Let the allocator fail in the gradients of a step."""
    import piop.training.loop.compilation as module

    good, count = module.eager_gradients, 0

    def failing(loss, profile):
        gradients = good(loss, profile)

        def call(batch):
            nonlocal count
            count += 1
            if count == step:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
            return gradients(batch)

        return call

    monkeypatch.setattr(module, "eager_gradients", failing)


def test_a_run_that_was_too_large_goes_on_with_less(heat, tmp_path, monkeypatch):
    out = tmp_path / "run"
    fails_at(4, monkeypatch)
    settings = {"checkpoint": 0.0}
    with pytest.raises(OutOfMemory, match=r"step 3 is kept.* piop resume .*/run --set functions=2"):
        fit(heat, steps=6, out=out, device="cpu", compile=False, samples=0, settings=settings)
    monkeypatch.undo()
    run = resume(out, settings={"functions": "2"}, samples=0)
    assert run.config.points.functions == 2
    recorded = json.loads((out / "config.json").read_text())["training"]
    assert recorded["points"]["functions"] == 2
    assert [row["step"] for row in read_metrics(RunFiles(out))] == [1, 2, 3, 4, 5, 6]


def test_without_a_checkpoint_the_run_begins_again_with_less(heat, tmp_path, monkeypatch):
    out = tmp_path / "run"
    fails_at(1, monkeypatch)
    with pytest.raises(OutOfMemory, match=r"begin again with less: piop resume .*functions=2"):
        fit(heat, steps=2, out=out, device="cpu", compile=False, samples=0)
    monkeypatch.undo()
    assert len(resume(out, settings={"functions": 2}, samples=0).metrics) == 2


def test_a_resume_changes_nothing_else(trained):
    before = (trained.path / "config.json").read_bytes()
    with pytest.raises(UsageError, match=r"width: cannot change.* functions, .*--from"):
        resume(trained.path, settings={"width": 16})
    with pytest.raises(UsageError, match="functions: 0 must be above zero"):
        resume(trained.path, settings={"functions": 0})
    assert (trained.path / "config.json").read_bytes() == before


def test_evaluation_and_prediction_say_what_to_lower(trained, monkeypatch):
    def full(*args, **options):
        raise MemoryError

    run = Run.load(trained.path)
    monkeypatch.setattr("piop.run.run.predict_values", full)
    monkeypatch.setattr("piop.run.evaluation.predict_values", full)
    inputs = {"u0": ([0.0, 0.5, 1.0, 1.5], [1.0, 0.0, -1.0, 0.0])}
    with pytest.raises(OutOfMemory, match="fewer samples or points at a time, half"):
        run.predict(inputs, at={"t": [1.5], "x": [0.0]})
    with pytest.raises(OutOfMemory, match=r"fewer inputs: piop evaluate .* --samples 2"):
        run.evaluate(8)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_real_allocation_that_fails_is_told_without_a_traceback(heat, tmp_path):
    (tmp_path / "spec.yaml").write_text(heat.to_yaml())
    command = ["solve", "spec.yaml", "--steps", "2", "--device", "cpu", "--no-compile"]
    command += ["--out", "run", "--set", "functions=2000", "--set", "queries=2000"]
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, *command],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert found.returncode == 1, found.stderr
    assert "piop: out of memory (asked for" in found.stderr
    assert "piop resume run --set functions=" in found.stderr
    assert "Traceback" not in found.stderr
