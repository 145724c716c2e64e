"""Damage to the files of a run folder: bits, bytes, lengths, and files in the place of others."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load, save

from piop.errors import PiopError
from piop.problem import Problem
from piop.run import Run, fit, resume
from piop.run.folder import EVALUATION
from piop.training.loop.checkpoint import METRICS
from tests.faults.outcome import Outcome

HEAT = """
piop: 1
name: small_heat
time: {t: [1, 2]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = 0.05*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
solve: {width: 8, blocks: 1, heads: 2, functions: 4, queries: 32, checkpoint: 0.0}
"""
FILES = ("spec.yaml", "config.json", "checksums.json", METRICS, "model.safetensors",
         "state/checkpoint.pt", "state/previous.pt", EVALUATION)  # fmt: skip
UNREAD = "state/previous.pt"
"""Read where the last checkpoint is damaged only, so that damage to it alone does no harm."""


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Flip one bit."""
    found = bytearray(content)
    found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def truncated(content: bytes, draw: random.Random) -> bytes:
    """Cut the end off, up to all of it."""
    return content[: draw.randrange(len(content))]


def lengthened(content: bytes, draw: random.Random) -> bytes:
    """Append what does not belong there."""
    return content + draw.randbytes(draw.choice([1, 16, 4096]))


def zeroed(content: bytes, draw: random.Random) -> bytes:
    """Let a block be zeros, as after a crash of the file system."""
    start = draw.randrange(len(content))
    block = content[start : start + draw.choice([1, 64, 512, 4096])]
    return content[:start] + bytes(len(block)) + content[start + len(block) :]


CHANGES = {"flipped bit": flipped, "truncation": truncated, "bytes appended": lengthened,
           "block of zeros": zeroed}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A run of a few steps, which every corruption copies.

    Attributes:
        folder: The run folder.
        other: A run of the same network with another seed, whose files take the place of its own.
    """

    folder: Path
    other: Path

    @classmethod
    def make(cls, folder: Path) -> Made:
        """Train both."""
        problem = Problem.from_yaml(HEAT)
        made = cls(folder / "made", folder / "other")
        for seed, path in enumerate([made.folder, made.other]):
            fit(problem, steps=6, out=path, samples=2, device="cpu", threads=1, seed=seed)
        return made


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Damage one file of a copy of a run at a time, then load it, predict with it and resume it."""
    made, draw = Made.make(folder), random.Random(seed)
    sound = use(made.folder)
    for number in range(count):
        copy = Path(shutil.copytree(made.folder, folder / "copy"))
        fault, name = damage(made, copy, draw)
        yield judged(fault, name, use(copy), sound, f"seed {seed}, number {number}")
        shutil.rmtree(copy)


def damage(made: Made, copy: Path, draw: random.Random) -> tuple[str, str]:
    """Damage a file; return the class of the fault, and the file."""
    kinds: dict[str, Callable[[], tuple[str, bytes]]] = {
        "NaN weight": lambda: ("model.safetensors", with_nan(copy)),
        "file of another run": lambda: pick(FILES, made.other),
        "file of the same run": lambda: (pick(FILES)[0], pick(FILES, copy)[1]),
        "input_std times ten": lambda: ("config.json", with_wrong_scale(copy)),
    }

    def pick(names: tuple[str, ...], source: Path | None = None) -> tuple[str, bytes]:
        name = draw.choice(names)
        return name, (source / name).read_bytes() if source else b""

    kind = draw.choices([*CHANGES, *kinds], [4, 2, 1, 2, 0.5, 1, 1, 0.3])[0]
    name, before, content = "", b"", b""
    while content == before:  # zeros in the place of zeros are no fault
        if kind in CHANGES:
            name = draw.choice(FILES)
            if (kind, name) == ("bytes appended", METRICS):
                continue  # as a killed process leaves it: a resume cuts it
            before = (copy / name).read_bytes()
            content = CHANGES[kind](before, draw)
        else:
            name, content = kinds[kind]()
            before = (copy / name).read_bytes()
    (copy / name).write_bytes(content)
    return f"{kind}, {name}", name


def with_nan(folder: Path) -> bytes:
    """Let one weight be NaN, in a file that is well formed."""
    weights = load((folder / "model.safetensors").read_bytes())
    name = max(weights, key=lambda name: weights[name].numel())
    weights[name].view(-1)[0] = torch.nan
    return save(weights)


def with_wrong_scale(folder: Path) -> bytes:
    """Edit the statistics of the inputs."""
    record = json.loads((folder / "config.json").read_text())
    scales = record["statistics"]["input_std"]
    record["statistics"]["input_std"] = {name: 10 * scale for name, scale in scales.items()}
    return json.dumps(record, indent=1).encode() + b"\n"


@dataclass(frozen=True)
class Use:
    """What using a run folder gave; texts are messages of refusals.

    Attributes:
        predicted: Values predicted.
        evaluated: The evaluation read.
        resumed: Weights and rows after a resume, and values predicted then.
        log: Notes and warnings.
    """

    predicted: bytes | str
    evaluated: bytes | str
    resumed: tuple[bytes, str, bytes] | str
    log: str = ""


def use(folder: Path) -> Use:
    """Load a run, predict with it, read its evaluation, and resume it."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("piop")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        return replace(
            Use(
                refused(lambda: predicted(folder)),
                refused(lambda: json.dumps(Run.load(folder).folder.read_json(EVALUATION)).encode()),
                refused(lambda: resumed(folder)),
            ),
            log="\n".join(lines),
        )
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def refused(action: Callable[[], object]) -> object:
    """Give a result, or the message of a refusal with exit code 2; anything else is raised."""
    try:
        return action()
    except PiopError as error:
        return str(error) if error.exit_code == 2 else f"exit code {error.exit_code}: {error}"
    except Exception as error:
        return f"uncaught {type(error).__name__}: {error}"


def predicted(folder: Path) -> bytes:
    """Predict for one input."""
    x = torch.arange(8, dtype=torch.float64) / 4
    at = {"t": [1.0, 1.5, 2.0], "x": x}
    found = Run.load(folder).predict({"u0": (x, torch.sin(torch.pi * x))}, at)
    return found.u.values.tobytes()


def resumed(folder: Path) -> tuple[bytes, str, bytes]:
    """Resume a run to its own budget."""
    run = resume(folder, samples=0)
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics]
    return (folder / "model.safetensors").read_bytes(), json.dumps(rows), predicted(folder)


def judged(fault: str, name: str, found: Use, sound: Use, how: str) -> Outcome:
    """Decide whether a fault was survived: each use is refused by name, or as if nothing was."""
    each = [(vars(found)[key], vars(sound)[key]) for key in ("predicted", "evaluated", "resumed")]
    texts = [given for given, _ in each if isinstance(given, str)]
    changed = any(given != right for given, right in each if not isinstance(given, str))
    unclear = [text for text in texts if not names(name, text)]
    noticed = bool(texts) or Path(name).name in found.log or name == UNREAD
    if changed or unclear or not noticed:
        what = "changed silently" if changed else unclear[0] if unclear else "not noticed"
        return Outcome(fault, False, f"{how}: {name}: {what}; log: {found.log}")
    return Outcome(fault, True)


def names(name: str, text: str) -> bool:
    """Whether a refusal has exit code 2 and names the file."""
    return not text.startswith(("uncaught", "exit code")) and Path(name).name in text
