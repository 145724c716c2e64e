"""Code blocks of Markdown pages, and what runs them.

A comment before a block says how a test treats it:

    <!-- test: skip, REASON -->     it is not run
    <!-- test: needs MODULE -->     it is run, in the slow test, where the module is installed
    <!-- test: slow -->             it is run in the slow test of its page, after all before it
    <!-- test: differs -->          its output is not compared with what the page shows
    <!-- test: error -->            YAML that piop refuses, with the message shown next

YAML without a ``name`` replaces sections of the first spec of its page.

The budgets of training are replaced (``BUDGETS``): what is shown is what a user would type.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from piop.cli import cli
from piop.cli.failures import run_command
from piop.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUDGETS = (
    (
        re.compile(r'time="\d+[smh]", calibrate=\d+'),
        "steps=3, samples=2, calibrate=20, functions=2",
    ),
    (re.compile(r'time="\d+[smh]"'), "steps=3, samples=2, calibrate=0, functions=2"),
    (
        re.compile(r"--no-physics --time \d+[smh]"),
        "--no-physics --steps 3 --samples 2 --calibrate 0 --no-compile --set data_functions=2",
    ),
    (
        re.compile(r"--time \d+[smh]"),
        "--steps 3 --samples 2 --calibrate 0 --no-compile --set functions=2",
    ),
    (re.compile(r"--calibrate \d\d+"), "--calibrate 20"),
)
"""Text of a page → text that is run."""
_FENCE = re.compile(
    r"(?:^<!-- test: (?P<directive>[^\n]*?) -->\n+)?"
    r"^```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = ("python", "console", "bash", "yaml", "csv")


@dataclass(frozen=True)
class Block:
    """A code block: its language, what follows the language, its text and its place."""

    language: str
    info: str
    text: str
    directive: str
    page: str
    line: int

    @property
    def title(self) -> str | None:
        """The name of the file that the page says it is."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else None

    @property
    def slow(self) -> bool:
        """Whether it is left to the slow test."""
        return self.directive.startswith(("slow", "needs"))

    @property
    def place(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """All blocks of a page that name a language."""
    text = path.read_text()
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        directive = match["directive"] or ""
        info = match["info"].strip()
        found.append(Block(match["language"], info, match["text"], directive, path.name, line))
    return found


def with_small_budget(text: str) -> str:
    """Replace the budgets of training."""
    for pattern, small in BUDGETS:
        text = pattern.sub(small, text)
    return text


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines of output that the page shows."""
    console = any(line.startswith("$ ") for line in text.splitlines())
    joined = text.replace("\\\n", " ")
    current: str | None = None
    shown: list[str] = []
    for line in joined.splitlines():
        if line.startswith("$ ") or not console:
            if current:
                yield current, shown
            current, shown = line.removeprefix("$ "), []
        elif line.strip():
            shown.append(line)
    if current:
        yield current, shown


@dataclass
class Page:
    """One page under test: the names its Python blocks have defined so far.

    Attributes:
        names: The namespace of all Python blocks.
        first: The first spec.
    """

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    first: str = ""

    def run(self, block: Block) -> None:
        """Run a block, and check what it prints where the page shows it."""
        word, _, module = block.directive.partition(" ")
        if word.startswith("skip") or (word == "needs" and find_spec(module) is None):
            return
        getattr(self, f"_{block.language}")(block)

    def _python(self, block: Block) -> None:
        code = "\n" * block.line + with_small_budget(block.text)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, block.place, "exec"), self.names)

    def _yaml(self, block: Block) -> None:
        text = block.text if "name" in sections(block.text) else self._merged(block.text)
        self.first = self.first or text
        if block.title:
            Path(block.title).write_text(text)
        if block.directive == "error":
            return
        assert Problem.from_yaml(text, block.title or block.place).describe()

    def _merged(self, text: str) -> str:
        return "".join({**sections(self.first), **sections(text)}.values())

    def _csv(self, block: Block) -> None:
        assert block.title, f"{block.place}: a CSV file has a name (title=…)"
        Path(block.title).write_text(block.text)

    def _bash(self, block: Block) -> None:
        self._console(block)

    def _console(self, block: Block) -> None:
        for command, shown in commands(block.text):
            words = shlex.split(with_small_budget(command), comments=True)
            if not words:
                continue
            assert words[0] == "piop", f"{block.place}: {command!r} is no command of piop"
            code, said = _call(words[1:])
            refused = any(".yaml:" in line or line.startswith("piop: ") for line in shown)
            assert code == (2 if refused else 0), f"{block.place}: {command}\n{said}"
            if "differs" not in block.directive:
                _compare(shown, said, f"{block.place}: {command}")


def sections(text: str) -> dict[str, str]:
    """The sections of a spec: keyword → its lines."""
    found = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    return {part.partition(":")[0]: part for part in found if part.strip()}


def _call(arguments: list[str]) -> tuple[int, str]:
    """Exit code and output of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(cli, arguments)
    return code, out.getvalue() + err.getvalue()


def _compare(shown: list[str], said: str, place: str) -> None:
    """Each line shown must be in the output, in this order; ``…`` stands for anything."""
    rest = said.splitlines()
    for line in shown:
        if line.strip() == "…":
            continue
        pattern = ".*".join(re.escape(part) for part in line.strip().split("…"))
        for at, own in enumerate(rest):
            if re.fullmatch(pattern, own.strip()):
                rest = rest[at + 1 :]
                break
        else:
            raise AssertionError(f"{place}: the output lacks\n{line}\nin\n{said}")
