"""Every example runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(Path("examples").resolve().glob("*.py"))


def test_examples_need_nothing_deeper_than_piop():
    for path in EXAMPLES:
        assert not re.search(r"^\s*(from|import) piop\.|^\s*from piop ", path.read_text(), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path, tmp_path):
    command = [sys.executable, str(path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert list(tmp_path.glob("runs/*/model.safetensors"))
