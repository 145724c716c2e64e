"""Commands that are killed or stopped at random times, and two that write at once."""

from __future__ import annotations

import json
import random
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from tests.faults.commands import Commands
from tests.faults.corruption import SPEC
from tests.faults.outcome import Outcome

STEPS, SAMPLES = 20, 40
TRAINED = ["--set", "checkpoint=0.05", "--threads", 1, "--device", "cpu", "--no-compile"]
TRAINED += ["--precision", "float64"]
SIGNALS = {signal.SIGKILL: 3, signal.SIGTERM: 1, signal.SIGINT: 1}
"""By what a command is ended → how often."""
REFUSALS = ("is being written by", "exists already")
"""Of a second writer: while the first is at work, and after it."""


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

    def attack(self, draw: random.Random, by: signal.Signals) -> tuple[bool, str]:
        """End it once or twice, give it again, and compare with the result of no end."""
        output, seen, clear = self.begin(self.folder / "ended"), [], True
        for _ in range(draw.choice([1, 1, 2])):
            after = draw.uniform(0, 1.05 * self.seconds)
            ended = self.commands.start(*self.command(output))
            ended.end_after(after, by)
            code, text = ended.wait()
            seen.append(f"after {after:.3f} s of {self.seconds:.2f}: exit code {code}, {text}")
            clear &= by == signal.SIGKILL or is_clear(code, text)
        code, text = self.commands.start(*self.command(output)).wait()
        done = code == 0 or "exists already" in text  # it was ended after its end
        same = done and self.result(output) == self.right
        shutil.rmtree(output.parent)
        return same and clear, "; ".join([*seen, f"then exit code {code}, {text}"])


def is_clear(code: int, text: str) -> bool:
    """Whether a command that was asked to stop did, and said so in its last line, or was done."""
    last = (text.strip().splitlines() or [""])[-1]
    stopped = code == 130 and last.startswith("piop: interrupted; ")
    done = code == 0 or "exists already" in text
    return "Traceback" not in text and (stopped or done)


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
    """End data, evaluate, resume and solve in turn; then let two write at once."""
    draw, spec = random.Random(seed), folder / "small_heat.yaml"
    spec.write_text(SPEC)
    with Commands() as commands:
        each = (Data, Evaluate, Resume, Solve)[:count]
        kinds = [kind(commands, folder / kind.name, spec) for kind in each]
        for number in range(count):
            kind = kinds[number % len(kinds)]
            (by,) = draw.choices([*SIGNALS], [*SIGNALS.values()])
            survived, seen = kind.attack(draw, by)
            yield Outcome(f"{by.name}, {kind.name}", survived, f"seed {seed}, {number}: {seen}")
        for number in range(count // 4):
            survived, seen = two_at_once(kinds[(seed + number) % len(kinds)], draw)
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
    clear = all(any(reason in text for reason in REFUSALS) for text in refusals)
    finished_first = sorted(code for code, _ in ends) == [0, 0]  # the first had ended
    right = kind.result(output) == kind.right and (len(refusals) == 1 or finished_first)
    shutil.rmtree(output.parent)
    return right and clear, f"{kind.name}, the second after {second_after:.2f} s: {ends}"
