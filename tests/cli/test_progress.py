"""Progress is a bar on a terminal and a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from piop.cli.progress import NoProgress, PlainProgress, ProgressBar, progress
from piop.job_phases import JobPhase


def row(step, seconds=0.0):
    return {"step": step, "loss": 1 / step, "seconds": seconds}


def test_the_spent_fraction_follows_the_budget():
    assert PlainProgress(10).fraction(row(4)) == 0.4
    assert PlainProgress(None, 60.0).fraction(row(4, 15.0)) == 0.25
    assert PlainProgress().fraction(row(4)) is None
    assert PlainProgress(10).fraction(row(40)) == 1.0


def test_plain_lines_come_at_the_start_at_the_end_and_not_too_often(capsys):
    with progress(100) as show:
        show.enter(JobPhase.PREPARING)
        show.run = Path("runs/a")
        show.enter(JobPhase.TRAINING)
        for step in range(1, 101):
            show(row(step))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "preparing",
        "training",
        "Run folder: runs/a",
        "step 1 (1 %)  loss 1.000e+00  0 s",
        "step 100 (100 %)  loss 1.000e-02  0 s",
    ]


def test_plain_lines_come_again_after_a_while(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("piop.cli.progress.time.monotonic", lambda: now[0])
    show = PlainProgress()
    for step, seconds in ((1, 0.0), (2, 5.0), (3, 11.0)):
        now[0] = seconds
        show(row(step))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["1", "3"]


def test_a_phase_that_says_nothing_has_a_line_all_the_same(capsys, monkeypatch):
    monkeypatch.setattr("piop.cli.progress.QUIET", 0.5)
    with PlainProgress() as show:
        show.enter(JobPhase.COMPILING, "about 18 s")
        time.sleep(2.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling (about 18 s)"
    assert lines[1] in {f"compiling (about 18 s)  {n} s" for n in (1, 2)}
    time.sleep(1.5)
    assert capsys.readouterr().err == "", "nothing is printed after the end"


def test_references_are_counted_and_phases_are_entered_again_without_a_line(capsys):
    with PlainProgress() as show:
        show.enter(JobPhase.TRAINING)
        show.enter(JobPhase.COMPILING)
        show.enter(JobPhase.TRAINING)
        show.enter(JobPhase.EVALUATING)
        show._last = 0.0
        show.advance(3, 64, "references")
        show.advance(4, 64, "references")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training", "compiling", "evaluating", "evaluating: 3 of 64 references"]


def test_a_terminal_gets_a_bar_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    chosen = progress(4)
    assert isinstance(chosen, ProgressBar)
    with chosen as show:
        show.enter(JobPhase.TRAINING)
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
    assert isinstance(progress(1), PlainProgress)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_passes_through_the_bar(error):
    with pytest.raises(error), ProgressBar(1):
        raise error


def test_of_several_processes_the_first_shows_progress(monkeypatch):
    monkeypatch.setattr("piop.cli.progress.launched_first", lambda: False)
    assert isinstance(progress(1), NoProgress)
