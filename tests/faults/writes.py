"""Places that cannot be written, that take no more, or that hold something already."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.commands import Commands
from tests.faults.corruption import SPEC
from tests.faults.kills import REFUSALS, TRAINED, Data, Evaluate, Killed, Resume, Solve
from tests.faults.outcome import Outcome


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Let data, evaluate, resume and solve write where they cannot, or something is already."""
    draw, spec = random.Random(seed), folder / "small_heat.yaml"
    spec.write_text(SPEC)
    with Commands() as commands:
        each = (Data, Evaluate, Resume, Solve)[: math.ceil(count / len(FAULTS))]
        kinds = [kind(commands, folder / kind.name, spec) for kind in each]
        for number in range(count):
            fault, inject = [*FAULTS.items()][number % len(FAULTS)]
            kind = kinds[(number // len(FAULTS) + seed) % len(kinds)]
            seen = inject(kind, draw)
            how = f"seed {seed}, number {number}, {kind.name}: {seen}"
            yield Outcome(f"{fault}, {kind.name}", not seen, how)


def disk_full(kind: Killed, draw: random.Random) -> str:
    """Let files of a random size be the largest that there may be, then give the command again."""
    output = kind.begin(kind.folder / "full")
    largest = round(math.exp(draw.uniform(0, math.log(50_000))))
    code, text = kind.commands.start(*kind.command(output), largest=largest).wait()
    if code and not is_refusal(output, code, text, "File too large"):
        return f"at {largest} bytes: exit code {code}, {text}"
    return after(kind, output)


def read_only(kind: Killed, draw: random.Random) -> str:
    """Take the permission to write away, then give it back and give the command again."""
    output = kind.begin(kind.folder / "closed")
    folders = [output.parent, *(p for p in output.parent.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    before = content(output.parent)
    code, text = kind.commands.start(*kind.command(output)).wait()
    same = content(output.parent) == before
    for folder in folders:
        folder.chmod(0o755)
    if not same or not is_refusal(output, code, text, "Permission denied"):
        return f"exit code {code}, {'' if same else 'written all the same, '}{text}"
    return after(kind, output)


def overwrite(kind: Killed, draw: random.Random) -> str:
    """Give the name of something that is there to every command that writes."""
    output = kind.begin(kind.folder / "there")
    kind.commands.run(*kind.command(output))
    before = content(output.parent)
    run = output if output.is_dir() else None
    commands: list[list[object]] = [
        ["data", kind.spec, "-n", 2, "--output", output if run is None else run / "spec.yaml"],
        ["solve", kind.spec, "--steps", 1, "--out", output, *TRAINED],
    ]
    if run is not None:
        commands.append(["solve", kind.spec, "--steps", 1, "--out", run / "config.json"])
    ends = [kind.commands.start(*command).wait() for command in commands]
    same = content(output.parent) == before
    shutil.rmtree(output.parent)
    if not same or not all(code == 2 and "Traceback" not in text for code, text in ends):
        return f"{'' if same else 'changed, '}{ends}"
    return ""


def forced(kind: Killed, draw: random.Random) -> str:
    """Replace with --force what another process is writing."""
    output = kind.begin(kind.folder / "forced")
    first = kind.commands.start(*kind.command(output))
    first.sleep_until(draw.uniform(0, 0.8 * kind.seconds))
    again = ["data", kind.spec, "-n", 2] if isinstance(kind, Data) else ["solve", kind.spec]
    place = ["--output", output] if isinstance(kind, Data) else ["--steps", 1, "--out", output]
    more = [] if isinstance(kind, Data) else TRAINED
    code, text = kind.commands.start(*again, *place, *more, "--force").wait()
    end = first.wait()
    if code == 0:  # the first had ended, or had not begun to write and was refused itself
        shutil.rmtree(output.parent)
        return "" if end[0] in (0, 2) and "Traceback" not in end[1] else f"{end}"
    refused = code == 2 and any(reason in text for reason in REFUSALS)
    return after(kind, output) if refused else f"exit code {code}, {text}; {end}"


FAULTS: dict[str, Callable[[Killed, random.Random], str]] = {
    "disk full": disk_full,
    "read-only folder": read_only,
    "name that is taken": overwrite,
    "--force beside a process": forced,
}


def is_refusal(output: Path, code: int, text: str, reason: str) -> bool:
    """Whether a command ended with a line that names a file and the reason."""
    last = (text.strip().splitlines() or [""])[-1]
    return code in (1, 2) and "Traceback" not in text and reason in last and str(output) in last


def after(kind: Killed, output: Path) -> str:
    """Give the command again where nothing is in its way; what is wrong then."""
    code, text = kind.commands.start(*kind.command(output)).wait()
    right = (code == 0 or "exists already" in text) and kind.result(output) == kind.right
    shutil.rmtree(output.parent)
    return "" if right else f"given again: exit code {code}, {text}"


def content(folder: Path) -> dict[Path, bytes]:
    """All files in a folder."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
