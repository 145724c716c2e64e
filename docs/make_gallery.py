"""The page docs/gallery.md, from committed results: ``python docs/make_gallery.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piop.problem import Problem
from piop.spec.load import builtin_names

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "gallery.md"
RESULTS = DOCS.parent / "benchmarks" / "results"
TRAINED = {"5 minutes": "all_problems_5m", "1 minute": "all_problems_1m_cold"}
"""Training time → file of results; the first that has a problem is shown."""
INTRODUCTION = """# Gallery

Every problem that comes with piop, with one picture and one error, from the results that are
committed with the code (`python docs/make_gallery.py` writes this page). `piop solve NAME` trains
it, `piop check NAME` explains it; the name leads to its spec, which cites its source.
"""
EQUATION = """
## Trained on the equation alone

Mean relative L2 error on held-out inputs against the reference solution, after the training time
named, with the default recipe on one or two CPU cores. Pictures show reference, prediction and
error. All numbers, with machines, steps and seconds, are in [Every problem,
measured](problems.md).
"""
DATA = """
## Trained on data

These have reference solutions, from which `piop data NAME` makes a data set to train on. Pictures
show a reference solution of one input (the first unknown, at the end of the time) with the
solver's own estimate of its relative L2 error (`python docs/make_pictures.py reference NAME`).
"""
PUBLISHED = """
## Known from published data alone

No equation is known to piop, so there is nothing to draw without the files
([where they are](datasets.md#problems-known-from-data-alone)).
"""
LONG = """
## Not drawn

Their reference solutions take many minutes each on a CPU.
"""


def page() -> str:
    """The whole page."""
    trained = {label: _read(file)["cells"] for label, file in reversed(TRAINED.items())}
    errors = {
        name: f"**{cell['mean']:.2g}** after {label} (trivial {cell['best_trivial']:.2g})"
        for label, cells in trained.items()
        for (name, seed), cell in ((key.split("/"), cell) for key, cell in cells.items())
        if seed == "0"  # as the pictures
    }
    estimates = {
        name: f"reference, error at most **{found['error_estimate']:.2g}**"
        for name, found in _read("gallery_references").items()
    }
    problems = {name: Problem.from_file(name) for name in builtin_names()}
    titles = {name: problem.spec.title for name, problem in problems.items()}
    rest = [name for name in titles if name not in errors | estimates]
    long = [name for name in rest if problems[name].residuals]
    return "\n".join(
        [
            INTRODUCTION + EQUATION,
            *_table({n: f"{titles[n]}. {errors[n]}" for n in titles if n in errors}),
            DATA,
            *_table({n: f"{titles[n]}. {estimates[n]}" for n in titles if n in estimates}),
            *([LONG, *(f"- {_link(name)}: {titles[name]}" for name in long)] if long else []),
            PUBLISHED,
            *(f"- {_link(name)}: {titles[name]}" for name in rest if name not in long),
            "",
        ]
    )


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def _link(name: str) -> str:
    return f"[`{name}`](../pdes/{name}.yaml)"


def _table(captions: Mapping[str, str]) -> list[str]:
    """A table with two problems in a row: readable as plain Markdown, too."""
    cells = [
        f"![{name}](images/problems/{name}.png)<br>{_link(name)}: {caption}"
        for name, caption in captions.items()
    ]
    pairs = zip(cells[::2], [*cells[1::2], ""], strict=False)
    return ["| | |", "|---|---|", *(f"| {left} | {right} |" for left, right in pairs)]


if __name__ == "__main__":
    PAGE.write_text(page())
