"""Progress is a bar on a terminal and a few lines elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from piop.cli.progress import PlainProgress, ProgressBar, progress


def row(step, seconds=0.0):
    return {"step": step, "loss": 1 / step, "seconds": seconds}


def test_the_spent_fraction_follows_the_budget():
    assert PlainProgress(Path("r"), 10, None).fraction(row(4)) == 0.4
    assert PlainProgress(Path("r"), None, 60.0).fraction(row(4, 15.0)) == 0.25
    assert PlainProgress(Path("r"), None, None).fraction(row(4)) is None
    assert PlainProgress(Path("r"), 10, None).fraction(row(40)) == 1.0


def test_plain_lines_come_at_the_start_at_the_end_and_not_too_often(capsys):
    with progress(Path("runs/a"), 100, None) as show:
        for step in range(1, 101):
            show(row(step))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Run folder: runs/a",
        "step 1 (1 %)  loss 1.000e+00  0 s",
        "step 100 (100 %)  loss 1.000e-02  0 s",
    ]


def test_plain_lines_come_again_after_a_while(capsys, monkeypatch):
    clock = iter([0.0, 5.0, 11.0])
    monkeypatch.setattr("piop.cli.progress.time.monotonic", lambda: next(clock))
    show = PlainProgress(Path("r"), None, None)
    for step in (1, 2, 3):
        show(row(step))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()[1:]] == ["1", "3"]


def test_a_terminal_gets_a_bar_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    chosen = progress(Path("runs/a"), 4, None)
    assert isinstance(chosen, ProgressBar)
    with chosen as show:
        for step in (1, 4):
            show(row(step))
    out = capsys.readouterr()
    assert "step 4" in out.err
    assert "loss 2.500e-01" in out.err
    assert out.out == ""


def test_a_closed_stderr_is_no_terminal(monkeypatch):
    class Closed:
        def isatty(self):
            raise ValueError("closed")

    monkeypatch.setattr(sys, "stderr", Closed())
    assert isinstance(progress(Path("r"), 1, None), PlainProgress)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_passes_through_the_bar(error):
    with pytest.raises(error), ProgressBar(Path("r"), 1, None):
        raise error
