"""The list of problems in README.md, made from their specs: ``python docs/list_problems.py``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from piop.problem import Problem
from piop.problem.inputs import history_of
from piop.spec.load import builtin_names

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- problems -->", "<!-- end of problems -->"
WIDTH = 120

GROUPS: dict[str, Callable[[Problem], bool]] = {
    "On published data alone, without equations": lambda p: not p.residuals,
    "On their equation and noisy data": lambda p: bool(p.infer),
    "On data from `piop data`, which contain the past of the solution": (
        lambda p: history_of(p) is not None
    ),
    "On data from `piop data`, on a shape, fixed or one per sample": (
        lambda p: not p.domain.is_box and not p.capabilities.equations
    ),
    "On data from `piop data`": (lambda p: p.learn is not None or not p.capabilities.equations),
    "On their equation, on a shape": lambda p: not p.domain.is_box,
    "On their equations, ordinary differential equations": lambda p: not p.space,
    "On their equation, between walls": lambda p: not p.pde.periodic,
    "On their equation, periodic": lambda p: p.pde.periodic,
}
"""Groups of problems by how they are trained; a problem is in the first that it fits."""
ORDER = tuple(reversed(GROUPS))
"""The groups as they are listed."""


def grouped_problems() -> dict[str, list[str]]:
    """Sort the names of all problems into the groups."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in builtin_names():
        problem = Problem.from_file(name)
        found[next(group for group, fits in GROUPS.items() if fits(problem))].append(name)
    return found


def block(groups: Mapping[str, Sequence[str]]) -> str:
    """Return the list as Markdown, a line of each group, with its markers."""
    lines = [BEGIN]
    for group in ORDER:
        text = f"- {group}: {', '.join(f'`{name}`' for name in groups[group])}"
        lines += textwrap.wrap(
            text, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
    return "\n".join([*lines, END])


def replaced(text: str, groups: Mapping[str, Sequence[str]]) -> str:
    """Return the text of the README with the list of these groups."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: block(groups), text, flags=re.DOTALL)


if __name__ == "__main__":
    README.write_text(replaced(README.read_text(), grouped_problems()))
