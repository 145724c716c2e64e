"""The page `docs/problems.md`: a picture and a line per problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "problems.md"
PICTURES = PAGE.parent / "images" / "problems"
WIDTH = 480
"""Of a picture, in pixels."""
INTRODUCTION = """# Every problem, measured

One `piop solve NAME --time T` with the default recipe for every problem of `pdes/` that is trained
on its equation alone, by `benchmarks/all_problems.py`, which writes this page.

- **error**: mean relative L2 error over held-out inputs against the reference solution, averaged
  over the unknowns; bold where it reaches the **mark**: 0.02 in one dimension, 0.05 in two, 0.1 in
  three.
- **worst**: that of the worst input.
- **until**: the time until which the mean error at each time stays below the mark, of the whole; 0
  where it is above the mark in the beginning (the sensors of `navier_stokes` leave 0.068 of `w0`
  undetermined, `results/sensors.json`, in waves that viscosity damps).
- **trivial**: that of the best trivial prediction (zero, the mean, the initial data).
- **wall s**, **phases s**: wall time of the command and of its phases.
- **others**: cores that other programs kept busy meanwhile; — where it was not measured. Runs were
  kept to one thread (`--threads 1`) where it says so.
- **measured**: day, commit and machine. A row that is older, or of one thread, may be worse than
  one of less training.
"""


def keep_picture(problem: str, figures: Path) -> None:
    """Keep a small copy of the first figure of the predictions of a run."""
    found = sorted(figures.glob("predictions*.png"))
    if not found:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(found[0]) as picture:
        height = round(picture.height * WIDTH / picture.width)
        small = picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    small.quantize(64).save(PICTURES / f"{problem}.png", optimize=True)


def write_page() -> None:
    """Write the page from all results that there are, the longest training first."""
    files = sorted(RESULTS.glob("all_problems_*.json"), key=_minutes, reverse=True)
    PAGE.write_text("\n".join([INTRODUCTION, *(_section(path) for path in files)]))


def _minutes(path: Path) -> tuple[float, bool]:
    text = path.stem.removeprefix("all_problems_").removesuffix("_cold")
    unit = {"s": 1 / 60, "m": 1, "h": 60}[text[-1]]
    return float(text[:-1]) * unit, not path.stem.endswith("_cold")


def _section(path: Path) -> str:
    found = json.loads(path.read_text())
    cells: Mapping[str, Mapping[str, Any]] = found["cells"]
    place, command = found["environment"], found["command"]
    time = path.stem.removeprefix("all_problems_")
    title = time.removesuffix("_cold") + " of training" + ", empty caches" * time.endswith("_cold")
    lines = [
        f"## {title}",
        "",
        f"`{command}`, {place['cores']} cores, torch {place['torch']}.",
        "",
        "| | problem (seed) | error | mark | worst | until | trivial | steps | wall s | phases s "
        "| others | measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(key, cell) for key, cell in cells.items()]
    reached = sum(_reaches(cell) for cell in cells.values())
    return "\n".join([*lines, "", f"{reached} of {len(cells)} reach their mark.", ""])


def _row(key: str, cell: Mapping[str, Any]) -> str:
    problem, seed = key.split("/")
    picture = ""
    if (PICTURES / f"{problem}.png").exists():
        picture = f"![](images/problems/{problem}.png)"
    if "failed" in cell:
        return f"| {picture} | `{problem}` ({seed}) | failed: {cell['failed']} | | | | | | | | | |"
    phases = ", ".join(f"{name} {seconds:g}" for name, seconds in cell["phases"].items())
    error = _number(cell["mean"])
    columns = [
        f"`{problem}` ({seed})",
        f"**{error}**" if _reaches(cell) else error,
        f"{cell['mark']:g}",
        _number(cell["worst"]),
        " of ".join(f"{at:.3g}" for at in cell.get("held_until") or ()) or "—",
        _number(cell["best_trivial"]),
        f"{cell['steps']:g}",
        f"{cell['wall']:g}",
        phases,
        _number(cell.get("cores_busy_otherwise")) + ", 1 thread" * (cell.get("threads") == 1),
        ", ".join(cell["environment"][of] for of in ("date", "commit", "cpu")),
    ]
    return f"| {picture} | {' | '.join(columns)} |"


def _reaches(cell: Mapping[str, Any]) -> bool:
    return cell.get("mean") is not None and cell["mean"] <= cell["mark"]


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2g}"
