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


@pytest.mark.slow
def test_an_example_runs_as_a_notebook_and_shows_one_bar(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = next(path for path in EXAMPLES if path.stem == "burgers_quickstart")
    parts = re.split(r"^# %%.*\n", path.read_text(), flags=re.MULTILINE)
    cells = [nbformat.v4.new_code_cell(part) for part in [*parts, "problem", "run", "evaluation"]]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=600).execute(cwd=tmp_path)
    fit = next(cell for cell in book.cells if "problem.fit" in cell.source)
    bars = [o for o in fit.outputs if "<progress" in o.get("data", {}).get("text/html", "")]
    assert len(bars) == 1
    assert not [o for o in fit.outputs if o.output_type == "stream"]
    problem, run, evaluation = (cell.outputs[0]["data"]["text/html"] for cell in book.cells[-3:])
    assert "$$" in problem
    assert '<img src="data:image/png;base64,' in run
    assert "Relative L2 error on 4 held-out inputs" in evaluation
