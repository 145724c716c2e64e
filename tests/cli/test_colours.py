"""Colours are for terminals alone, and not where NO_COLOR is set."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys

import pytest

from piop.cli.console import has_colours, prepare_output, print_results, styled

ESCAPE = "\x1b"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("piop.cli.console.is_terminal", lambda _: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_colours_unless_told_otherwise(monkeypatch):
    assert styled("a", sys.stdout, fg="red") == "\x1b[31ma\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "")
    assert has_colours(sys.stdout), "an empty value does not count (no-color.org)"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(sys.stdout)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(sys.stdout)


def test_a_file_shows_none():
    assert styled("a", io.StringIO(), fg="red") == "a"


def test_warnings_among_results_are_coloured(terminal, capsys):
    print_results("a\nWarning: b")
    assert capsys.readouterr().out == "a\n\x1b[33mWarning: b\x1b[0m\n"


def test_warnings_of_the_log_are_coloured(terminal, capsys, monkeypatch):
    logger = logging.getLogger("piop")
    for name in ("handlers", "level", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    prepare_output()
    logger.info("a")
    logger.warning("b")
    assert capsys.readouterr().err == "piop: a\n\x1b[33mpiop: warning: b\x1b[0m\n"


def test_the_settings_are_coloured_on_a_terminal(terminal, piop):
    out = piop("settings", "bins")[1]
    assert out.startswith(f"{ESCAPE}[1madaptive{ESCAPE}[0m: weights that adapt")
    assert f"{ESCAPE}[36mbins{ESCAPE}[0m (whole number" in out


@pytest.mark.parametrize("command", [["settings"], ["settings", "--json"], ["backbones"]])
def test_piped_output_is_plain(command, piop, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert ESCAPE not in piop(*command)[1]


def run(no_color, piped):
    """What ``piop check nowhere.yaml`` writes to stderr, a terminal or a pipe."""
    command = [sys.executable, "-m", "piop", "check", "nowhere.yaml"]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color}
    if piped:
        return subprocess.run(command, env=environment, capture_output=True, text=True).stderr
    reader, writer = pty.openpty()
    subprocess.run(command, env=environment, stderr=writer, stdout=subprocess.DEVNULL)
    os.close(writer)
    return os.read(reader, 10000).decode()


def test_errors_are_coloured_on_a_real_terminal_alone():
    assert run("", piped=False).startswith("\x1b[31mnowhere.yaml")
    assert run("1", piped=False).startswith("nowhere.yaml")
    assert run("", piped=True).startswith("nowhere.yaml")
