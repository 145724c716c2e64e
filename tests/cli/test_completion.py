"""Commands are completed in bash, zsh and fish, quickly and without torch."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest
from click.shell_completion import ShellComplete

from piop.cli import cli, main
from piop.cli.completion import FIGURE, NAMES, SHELLS, VARIABLE, answer, names
from piop.cli.name_table import as_text
from piop.spec.builtin import builtin_names


def items(*words):
    *before, incomplete = words
    return ShellComplete(cli, {}, "piop", VARIABLE).get_completions(before, incomplete)


def offered(*words):
    return [item.value for item in items(*words) if item.type in ("plain", "open")]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two run folders in ``runs``, one here, and a folder that is none."""
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(["runs/heat-new", "runs/burgers-old", "mine"]):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "spec.yaml").touch()
        (folder / "config.json").touch()
        os.utime(folder / "config.json", (1e9 - age, 1e9 - age))
    (tmp_path / "runs" / "other").mkdir()
    return tmp_path


def test_the_names_on_disk_are_those_of_the_code():
    assert NAMES.read_text() == as_text(), "write them anew: python docs/list_names.py"


def test_commands_and_options_are_completed():
    assert offered("so") == ["solve"]
    assert "--tensorboard" in offered("solve", "burgers", "--t")
    assert offered("solve", "heat", "--precision", "float") == ["float64", "float32"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("command", ["check", "solve", "data"])
def test_problems_are_completed_and_files(command):
    assert offered(command, "burgers_") == [n for n in builtin_names() if n.startswith("burgers_")]
    assert ("mi", "file") in [(item.value, item.type) for item in items(command, "mi")]


@pytest.mark.parametrize("command", ["resume", "evaluate", "predict"])
def test_run_folders_are_completed_the_newest_first(command, runs):
    assert offered(command, "") == ["runs/heat-new", "runs/burgers-old", "mine"]
    assert offered(command, "runs/b") == ["runs/burgers-old"]
    assert offered(command, f"{runs}/runs/h") == [f"{runs}/runs/heat-new"]
    assert offered("solve", "heat", "--from", "m") == ["mine"]
    assert offered(command, "nowhere/") == []


def test_networks_are_completed_those_of_other_packages_too(monkeypatch):
    class Point:
        name = "fancy"

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()])
    assert offered("solve", "heat", "--backbone", "f") == ["fno", "fancy"]


def test_settings_are_completed_with_their_values():
    found = items("solve", "heat", "--set", "learning")
    assert [(i.value, i.type, i.help) for i in found] == [
        ("learning_rate=", "open", "Peak step size")
    ]
    assert offered("solve", "heat", "--set", "optimiser=") == [
        f"optimiser={name}" for name in ("soap", "muon", "adamw")
    ]
    assert offered("solve", "heat", "--set", "form=s") == ["form=strong"]
    assert offered("solve", "heat", "--set", "shared=") == ["shared=true", "shared=false"]
    assert offered("solve", "heat", "--set", "functions=") == []
    assert offered("solve", "heat", "--set", "nothing=") == []


def test_settings_that_are_given_are_not_offered_again():
    assert offered("solve", "heat", "--set", "bins=3", "--set", "bin") == []


def test_settings_of_the_chosen_network_are_completed():
    of_fno = offered("solve", "heat", "--backbone", "fno", "--set", "")
    assert "modes=" in of_fno
    assert "heads=" not in of_fno
    assert {"modes=", "heads=", "preset="} <= {*offered("solve", "heat", "--set", "")}
    presets = offered("solve", "heat", "--backbone", "ipot", "--set", "preset=")
    assert presets == [f"preset={name}" for name in names()["backbones"]["ipot"]["presets"]]
    assert "preset=rollout" in presets


def test_a_resumed_run_is_offered_what_it_may_change():
    found = offered("resume", "runs/a", "--set", "")
    assert {"functions=", "learning_rate=", "held_out_every="} <= {*found}
    assert "form=" not in found


def test_topics_of_settings_are_completed():
    assert {"optimiser", "pit", "learning_rate"} <= {*offered("settings", "")}


def test_figures_are_completed():
    found = [item.value for item in FIGURE.shell_complete(None, None, "")]
    assert {"fields", "losses", "error_over_time"} <= {*found}


def asked(shell, monkeypatch, capsys, **environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(VARIABLE, f"{shell}_complete")
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "breaks", "expected"),
    [
        ("piop solve burgers --set optimiser=s", "\"'=:", ["plain,soap"]),
        ("piop solve burgers --set optimiser=s", " ", ["plain,optimiser=soap"]),
        ('piop solve burgers --set "optimiser=s', "\"'=:", ["plain,optimiser=soap"]),
        ("piop solve burgers --set optimiser=", "=:", ["plain,soap", "plain,muon", "plain,adamw"]),
        ("piop solve burgers --set decay_", "=:", ["open,decay_after="]),
        ("piop resum", "=:", ["plain,resume"]),
        ("piop solve 'unclosed", "=:", ["file,unclosed"]),
        ("piop unknown ", "=:", [""]),
    ],
)
def test_bash_gets_the_part_of_a_word_that_it_knows(line, breaks, expected, monkeypatch, capsys):
    own = {"_PIOP_LINE": line, "_PIOP_BREAKS": breaks}
    assert asked("bash", monkeypatch, capsys, **own) == expected


def test_zsh_and_fish_get_meanings(monkeypatch, capsys):
    own = {"COMP_WORDS": "piop solve heat --set learning", "COMP_CWORD": "4"}
    found = asked("zsh", monkeypatch, capsys, **own)
    assert found == ["open", "learning_rate=", "Peak step size"]
    own["COMP_CWORD"] = "learning"
    found = asked("fish", monkeypatch, capsys, **own)
    assert found == ["plain,learning_rate=\tPeak step size"]


def test_another_shell_is_answered_with_an_exit_code(capsys):
    assert answer(cli, "tcsh_complete") == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_asks_for_completions(shell, piop, monkeypatch):
    code, out, _ = piop("completion", shell)
    assert code == 0
    assert f"{VARIABLE}={shell}_complete" in out
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert piop("completion")[1] == out


@pytest.mark.parametrize("shell", ["/bin/tcsh", ""])
def test_without_a_known_shell_it_is_asked_for(shell, piop, monkeypatch):
    monkeypatch.setenv("SHELL", shell)
    code, out, err = piop("completion")
    assert (code, out) == (2, "")
    assert "give the shell: one of bash, zsh, fish" in err


def test_completion_is_quick_and_imports_no_torch():
    code = (
        "import sys; from piop.cli import cli; from click.shell_completion import ShellComplete\n"
        "s = ShellComplete(cli, {}, 'piop', '_PIOP_COMPLETE')\n"
        "for words in (['solve', ''], ['solve', 'heat', '--set', ''], ['resume', '']):\n"
        "    assert s.get_completions(words[:-1], words[-1])\n"
        "print(sorted({'torch', 'sympy', 'numpy', 'matplotlib'} & {*sys.modules}))"
    )
    before = os.times()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = os.times()
    assert run.stdout == "[]\n"
    spent = after.children_user + after.children_system
    assert spent - before.children_user - before.children_system < 0.7  # seconds of its CPU


class Terminal:
    """A shell in a pseudo-terminal: keys in, what it shows out."""

    def __init__(self, *command, **environment):
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, {**os.environ, **environment})
        self.shown = ""

    def type(self, keys, expected, seconds=30.0):
        """Type keys and read until the expected text is shown."""
        os.write(self.file, keys.encode())
        end = time.monotonic() + seconds
        while expected not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self.file], [], [], 0.2)[0]:
                self.shown += os.read(self.file, 65536).decode(errors="replace")
        found, self.shown = self.shown, ""
        return found

    def close(self):
        os.write(self.file, b"\x03\x04")
        os.close(self.file)
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)


@pytest.fixture
def command(tmp_path):
    """A command ``piop`` of this checkout, in a folder of its own."""
    path = tmp_path / "bin" / "piop"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m piop "$@"\n')
    path.chmod(0o755)
    return {
        "PATH": f"{path.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "TERM": "dumb",
        "HOME": str(tmp_path),
    }


START = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
INSTALL = {
    "bash": 'PS1="> "; eval "$(piop completion bash)"; echo re""ady\n',
    "zsh": 'PS1="> "; autoload -U compinit; compinit -u; eval "$(piop completion zsh)"; '
    'echo re""ady\n',
    "fish": 'piop completion fish | source; echo re""ady\n',
}


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(shutil.which(name) is None, reason="no such shell")
        )
        for name in ("bash", "zsh")
    ],
)
def test_a_real_shell_completes_what_is_typed(shell, command):
    terminal = Terminal(*START[shell], **command)
    try:
        terminal.type(INSTALL[shell], "ready")
        terminal.type("piop solve kuramoto\t", "kuramoto_sivashinsky ")
        terminal.type("--set decay_\t", "decay_after=")
        terminal.type("7 --set linear_part=le\t", "linear_part=learned ")
        terminal.type("--backbone galer\t", "galerkin ")
        terminal.type(
            "\x01echo Given: \n",  # Ctrl-A: the line is printed, not run
            "\nGiven: piop solve kuramoto_sivashinsky --set decay_after=7 "
            "--set linear_part=learned --backbone galerkin",
        )
    finally:
        terminal.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes_what_is_typed(command):
    def completed(line):
        script = f"piop completion fish | source; complete -C '{line}'"
        run = subprocess.run(
            ["fish", "--no-config", "-c", script],
            env={**os.environ, **command},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return run.stdout.splitlines()

    assert completed("piop solve kuramoto") == ["kuramoto_sivashinsky"]
    assert completed("piop solve heat --set learning") == ["learning_rate=\tPeak step size"]
    assert completed("piop solve heat --set optimiser=s") == ["optimiser=soap"]
