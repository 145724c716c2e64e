"""Commands run in this process, and one small run made once."""

from __future__ import annotations

import numpy as np
import pytest

from piop.cli import cli
from piop.cli.failures import run_command

SMALL = ["--set", "functions=2", "--set", "queries=16", "--no-compile", "--device", "cpu"]


@pytest.fixture
def piop(capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*arguments):
        code = run_command(cli, [str(a) for a in arguments])
        out = capsys.readouterr()
        assert "Traceback" not in out.out + out.err
        return code, out.out, out.err

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run of a few steps, made once."""
    path = tmp_path_factory.mktemp("runs") / "heat"
    few = ["--steps", "3", "--samples", "64"]  # however slow the machine is
    arguments = ["solve", "heat", *few, "--seed", "1", "--out", str(path), *SMALL]
    assert run_command(cli, arguments) == 0
    return path


@pytest.fixture
def sensors(tmp_path):
    rows = "\n".join(f"{s},{x},{np.sin(6.28 * x + s):.6f}" for s in (0, 1) for x in (0.1, 0.4, 0.8))
    path = tmp_path / "sensors.csv"
    path.write_text(f"sample,x,u0\n{rows}\n")
    return path
