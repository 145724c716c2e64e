"""Commands that are killed at random times, and two that write at once."""

from __future__ import annotations

import json
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from tests.faults.commands import Commands
from tests.faults.corruption import HEAT
from tests.faults.outcome import Outcome

STEPS, SAMPLES = 30, 40
TRAINED = ["--set", "checkpoint=0.05", "--threads", 1, "--device", "cpu", "--no-compile"]


class Killed(ABC):
    """A command that is killed, and what must be there after it was given again.

    Args:
        commands: Starts it.
        folder: A place of its own.
        spec: The problem.
    """

    name: str

    def __init__(self, commands: Commands, folder: Path, spec: Path) -> None:
        self.commands, self.folder, self.spec = commands, folder, spec
        folder.mkdir()
        self.prepare()
        whole = self.begin(folder / "whole")
        self.seconds = commands.run(*self.command(whole))
        self.right = self.result(whole)

    @abstractmethod
    def prepare(self) -> None:
        """Make what the command begins with."""

    @abstractmethod
    def begin(self, path: Path) -> Path:
        """Give the output of a command that has not begun."""

    @abstractmethod
    def command(self, output: Path) -> list[object]:
        """Give the arguments of the command, after a kill those that go on."""

    @abstractmethod
    def result(self, output: Path) -> Any:
        """Read what the command has made."""

    def attack(self, draw: random.Random) -> tuple[bool, str]:
        """Kill it once or twice, give it again, and compare with the result of no kill."""
        output, times = self.begin(self.folder / "killed"), []
        for _ in range(draw.choice([1, 1, 2])):
            times.append(draw.uniform(0, 1.05 * self.seconds))
            killed = self.commands.start(*self.command(output))
            killed.kill_after(times[-1])
            killed.wait()
        code, text = self.commands.start(*self.command(output)).wait()
        done = code == 0 or "exists already" in text  # it was killed after its end
        same = done and self.result(output) == self.right
        shutil.rmtree(output.parent)
        return same, f"killed after {times} s of {self.seconds:.2f}: exit code {code}, {text}"


def of_run(folder: Path) -> Any:
    """Weights, rows and errors of a run, without its seconds; and what else is in its folder."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    errors = json.loads((folder / "evaluation.json").read_text())["relative_l2"]
    names = {p.name for p in folder.rglob("*")} - {"previous.pt"}  # of which one kill may cost it
    plain = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return (folder / "model.safetensors").read_bytes(), plain, errors, names


@final
class Solve(Killed):
    """Training from the beginning."""

    name = "solve"

    def prepare(self) -> None:
        """Nothing: it begins with nothing."""

    def begin(self, path: Path) -> Path:
        """Give a run folder in a place of its own."""
        path.mkdir()
        return path / "run"

    def command(self, output: Path) -> list[object]:
        """Resume what has a config, else begin again."""
        if (output / "config.json").exists():
            return ["resume", output]
        return ["solve", self.spec, "--steps", STEPS, "--out", output, *TRAINED]

    def result(self, output: Path) -> Any:
        """Read the run."""
        return of_run(output)


@final
class Resume(Killed):
    """The second half of a training."""

    name = "resume"

    def prepare(self) -> None:
        """Train the first half."""
        half = ["--steps", STEPS // 2, "--out", self.folder / "half", *TRAINED]
        self.commands.run("solve", self.spec, *half)

    def begin(self, path: Path) -> Path:
        """Copy the first half."""
        return Path(shutil.copytree(self.folder / "half", path / "run"))

    def command(self, output: Path) -> list[object]:
        """Train on."""
        return ["resume", output, "--steps", STEPS]

    def result(self, output: Path) -> Any:
        """Read the run."""
        return of_run(output)


@final
class Evaluate(Killed):
    """An evaluation of a trained run."""

    name = "evaluate"

    def prepare(self) -> None:
        """Train."""
        short = ["--steps", 5, "--out", self.folder / "run", *TRAINED]
        self.commands.run("solve", self.spec, *short)

    def begin(self, path: Path) -> Path:
        """Copy the run."""
        return Path(shutil.copytree(self.folder / "run", path / "run"))

    def command(self, output: Path) -> list[object]:
        """Evaluate on other inputs than the training did."""
        return ["evaluate", output, "--samples", 16, "--seed", 3]

    def result(self, output: Path) -> Any:
        """Read the run."""
        return of_run(output)


@final
class Data(Killed):
    """A data set of three batches."""

    name = "data"

    def prepare(self) -> None:
        """Nothing: it begins with nothing."""

    def begin(self, path: Path) -> Path:
        """Give a file in a place of its own."""
        path.mkdir()
        return path / "d.nc"

    def command(self, output: Path) -> list[object]:
        """Make it, or go on."""
        return ["data", self.spec, "-n", SAMPLES, "--output", output]

    def result(self, output: Path) -> Any:
        """Read the file, and what else is beside it."""
        return output.read_bytes(), sorted(p.name for p in output.parent.iterdir())


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Kill solve, resume, evaluate and data in turn; then let two write at once."""
    draw, spec = random.Random(seed), folder / "small_heat.yaml"
    spec.write_text(HEAT)
    with Commands(folder) as commands:
        each = (Solve, Resume, Evaluate, Data)[:count]
        kinds = [kind(commands, folder / kind.name, spec) for kind in each]
        for number in range(count):
            kind = kinds[number % len(kinds)]
            survived, seen = kind.attack(draw)
            yield Outcome(f"kill -9, {kind.name}", survived, f"seed {seed}, {number}: {seen}")
        for number in range(count // 4):
            survived, seen = two_at_once(kinds[number % 3], draw)
            yield Outcome("two writers at once", survived, f"seed {seed}, {number}: {seen}")


def two_at_once(kind: Killed, draw: random.Random) -> tuple[bool, str]:
    """Give a command twice at nearly the same time: one does it, and the other is refused."""
    output = kind.begin(kind.folder / "twice")
    command = kind.command(output)
    first = kind.commands.start(*command)
    second_after = draw.uniform(0, 0.8 * kind.seconds)
    first.sleep_until(second_after)
    second = kind.commands.start(*command)
    ends = [first.wait(), second.wait()]
    refusals = [text for code, text in ends if code == 2]
    clear = all("is being written by" in t or "exists already" in t for t in refusals)
    finished_first = sorted(code for code, _ in ends) == [0, 0]  # the first had ended
    right = kind.result(output) == kind.right and (len(refusals) == 1 or finished_first)
    shutil.rmtree(output.parent)
    return right and clear, f"{kind.name}, the second after {second_after:.2f} s: {ends}"
