"""Damage to the files of a run folder: bits, lengths, numbers, files that are gone or swapped."""

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
from tests.small_heat import HEAT

SPEC = HEAT + "solve: {width: 8, blocks: 1, heads: 2, functions: 4, queries: 32, checkpoint: 0.0}\n"
STEPS = 6
FILES = ("spec.yaml", "config.json", "checksums.json", METRICS, "model.safetensors",
         "state/checkpoint.pt", "state/previous.pt", EVALUATION)  # fmt: skip
NUMBERED = ("config.json", "checksums.json", METRICS, EVALUATION)
UNREAD = "state/previous.pt"
"""Read where the last checkpoint is damaged only, so that damage to it alone does no harm."""

Change = Callable[[bytes, random.Random], bytes]


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


def wrong_number(content: bytes, draw: random.Random) -> bytes:
    """Change a digit, in a file that stays well formed."""
    at = draw.choice([i for i, byte in enumerate(content) if byte in b"123456789"])
    others = b"123456789".replace(content[at : at + 1], b"")
    return content[:at] + bytes([draw.choice(others)]) + content[at + 1 :]


CHANGES: dict[str, Change] = {"flipped bit": flipped, "truncation": truncated,
                              "bytes appended": lengthened, "block of zeros": zeroed}  # fmt: skip


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
        problem = Problem.from_yaml(SPEC)
        made = cls(folder / "made", folder / "other")
        for seed, path in enumerate([made.folder, made.other]):
            fit(problem, steps=STEPS, out=path, samples=2, device="cpu", threads=1, seed=seed)
        return made


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Damage one file of a copy of a run at a time, then load it, predict with it and resume it."""
    made, draw = Made.make(folder), random.Random(seed)
    sound = use(Path(shutil.copytree(made.folder, folder / "sound")))
    for number in range(count):
        copy = Path(shutil.copytree(made.folder, folder / "copy"))
        kind, name = damage(made, copy, draw)
        yield judged(kind, name, use(copy), sound, f"seed {seed}, number {number}")
        shutil.rmtree(copy)


def damage(made: Made, copy: Path, draw: random.Random) -> tuple[str, str]:
    """Damage a file; return the kind of damage, and the file."""
    kinds: dict[str, Callable[[], tuple[str, bytes | None]]] = {
        "missing file": lambda: (draw.choice([n for n in FILES if n != EVALUATION]), None),
        "wrong number": lambda: changed(draw.choice(NUMBERED), wrong_number),
        "NaN weight": lambda: ("model.safetensors", with_nan(copy)),
        "input_std times ten": lambda: ("config.json", with_wrong_scale(copy)),
        "file of another run": lambda: taken(made.other),
        "file of the same run": lambda: (draw.choice(FILES), taken(copy)[1]),
    }

    def changed(name: str, change: Change) -> tuple[str, bytes]:
        return name, change((copy / name).read_bytes(), draw)

    def taken(source: Path) -> tuple[str, bytes]:
        name = draw.choice(FILES)
        return name, (source / name).read_bytes()

    kind = draw.choices([*CHANGES, *kinds], [4, 2, 1, 2, 1, 3, 0.5, 0.3, 1, 1])[0]
    while True:
        name, content = (
            changed(draw.choice(FILES), CHANGES[kind]) if kind in CHANGES else kinds[kind]()
        )
        as_killed = (kind, name) == ("bytes appended", METRICS)  # a resume cuts it
        if content != (copy / name).read_bytes() and not as_killed:
            break  # zeros in the place of zeros are no fault
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_bytes(content)
    return kind, name


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
        resumed: Weights after a resume, and values predicted then.
        continued: The same after a resume that trains on.
        rows: The metrics then.
        log: Notes and warnings.
    """

    predicted: bytes | str
    evaluated: bytes | str
    resumed: tuple[bytes, bytes] | str
    continued: tuple[bytes, bytes] | str
    rows: bytes | str
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
                refused(lambda: resumed(folder, STEPS + 2)),
                refused(lambda: rows(folder)),
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


def resumed(folder: Path, steps: int | None = None) -> tuple[bytes, bytes]:
    """Resume a run to its own budget, or to a larger one."""
    resume(folder, steps=steps, samples=0)
    return (folder / "model.safetensors").read_bytes(), predicted(folder)


def rows(folder: Path) -> bytes:
    """Read the metrics, without the seconds."""
    found = Run.load(folder).metrics
    return json.dumps([{k: v for k, v in row.items() if k != "seconds"} for row in found]).encode()


def judged(kind: str, name: str, found: Use, sound: Use, how: str) -> Outcome:
    """Decide whether a fault was survived: each use is refused by name, or as if nothing was."""
    results = [key for key in vars(sound) if key != "log"]
    each = [(vars(found)[key], vars(sound)[key]) for key in results]
    texts = [given for given, _ in each if isinstance(given, str)]
    changed = [
        key
        for key, (given, right) in zip(results, each, strict=True)
        if given != right
        and not isinstance(given, str)
        and (kind, name, key) != ("missing file", METRICS, "rows")
    ]
    unclear = [text for text in texts if not names(name, text)]
    noticed = bool(texts) or Path(name).name in found.log or name == UNREAD
    fault = f"{kind}, run folder"
    if changed or unclear or not noticed:
        what = f"{changed} silently" if changed else unclear[0] if unclear else "not noticed"
        return Outcome(fault, False, f"{how}: {name}: {what}; log: {found.log}")
    return Outcome(fault, True)


def names(name: str, text: str) -> bool:
    """Whether a refusal has exit code 2 and names the file."""
    return not text.startswith(("uncaught", "exit code")) and Path(name).name in text
