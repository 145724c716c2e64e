"""Names and titles that are paths, devices, control characters, look-alikes or endless."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from piop.errors import SpecError
from piop.problem import Problem
from piop.run.folder import new_folder
from tests.faults.outcome import Outcome

PIECES = [
    "..", ".", "/", "\\", "~", "-", ":", "*", " ", "C:", "con", "nul", "heat", "etc", "a", "%s",
    "\x00", "\n", "\x1b[2J", "\x7f", "\u2028", "\ud800", "\u202e", "\u2215", "\uff0f", "\u0430",
    "é", "x" * 90,
]  # fmt: skip


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Give a problem names and titles; a name that is taken must be a folder inside ``runs``."""
    draw = random.Random(seed)
    with chdir(folder):
        for _ in range(count):
            text = "".join(draw.choices(PIECES, k=draw.randint(1, 5)))
            yield Outcome("name that is no name", _name_is_safe(text), repr(text))
            yield Outcome("title that a file loses", _title_returns(text), repr(text))


def _problem(name: str, title: str) -> Problem | None:
    """Build a problem; None where the text is refused."""
    try:
        return Problem(
            name=name, title=title, space={"x": [0, 1]}, unknowns=["u"],
            equations=["-dxx(u) = 1"], boundary={"x": {"dirichlet": {"u": 0}}},
        )  # fmt: skip
    except SpecError:
        return None


def _name_is_safe(name: str) -> bool:
    problem = _problem(name, "t")
    if problem is None:
        return True
    path = new_folder(None, problem.name, False).path
    path.mkdir(parents=True)
    inside = path.resolve().parent == Path("runs").resolve()
    path.rmdir()
    return inside


def _title_returns(title: str) -> bool:
    problem = _problem("p", title)
    return problem is None or Problem.from_yaml(problem.to_yaml()).spec.title == title
