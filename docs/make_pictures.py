"""Draw the pictures of the guide: ``python docs/make_pictures.py [NAME …]``.

``patterns`` and ``laws`` take seconds; ``first_solve`` trains for half a minute on one thread, as
the page does. Nothing else draws the pictures in ``docs/images/guide``. ``reference PROBLEM …``
draws reference solutions of problems that are trained on data, for the gallery, and records their
error estimates in ``benchmarks/results/gallery_references.json``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import piop
from piop.reference.solution import Solution
from piop.report.style import LINES, field_colours, figure, set_labels, style_lines

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "images" / "guide"
REFERENCES = DOCS.parent / "benchmarks" / "results" / "gallery_references.json"
TOLERANCE = 0.03
"""Of the references of the gallery."""
LAWS = {
    "fourier_series": "terms: 10, amplitude: [-0.5, 0.5], wavenumber: [1, 3]",
    "gaussian_random_field:\nsmooth": "matern: {smoothness: 4.5, length: 0.2}",
    "gaussian_random_field:\nrough": "matern: {smoothness: 1, length: 0.2}",
    "piecewise_constant": "cells: 8, low: -1, high: 1",
}
"""Laws of the picture, with their keys."""


def laws() -> Figure:
    """Three draws of each law on an interval."""
    drawn = figure(8.0, 2.4)
    x = torch.linspace(0, 1, 400, dtype=torch.float64)[None, :, None]
    for axes, (title, keys) in zip(drawn.subplots(1, 4, sharex=True), LAWS.items(), strict=True):
        law = title.partition(":")[0]
        problem = piop.Problem.from_yaml(
            "name: laws\nspace: {x: [0, 1]}\nunknowns: [u]\n"
            f"inputs: {{f: {{of: [x], law: {law}, {keys}}}}}\n"
            "equations: [u - dxx(u) = f]\nboundary: {x: periodic}\n"
        )
        values = problem.sample(3, seed=4)["f"](x)
        for color, row in zip(LINES, values.reshape(3, -1), strict=False):
            axes.plot(x[0, :, 0], row, color=color, linewidth=1.2)
        style_lines(axes, title, "x")
    return drawn


def patterns() -> Figure:
    """A reference solution of each spec on the page of patterns."""
    page = (DOCS / "guide" / "your_own_pde.md").read_text()
    specs = dict(re.findall(r'^```yaml title="(.*?)\.yaml"\n(.*?)^```', page, re.M | re.S))
    del specs["typo"], specs["find_diffusivity"]  # the solutions of heat_rod
    drawn = figure(8.0, 6.3)
    panels = drawn.subplots(3, 4).ravel()
    for axes, (name, text) in zip(panels, specs.items(), strict=True):
        _draw_solution(axes, piop.Problem.from_yaml(text).at(), name)
    return drawn


def _draw_solution(axes: Axes, problem: piop.Problem, title: str) -> None:
    solution = problem.solve_reference(problem.sample(1, seed=3), tolerance=1e-3)
    _draw_values(axes, problem, solution, title)


def _draw_values(axes: Axes, problem: piop.Problem, solution: Solution, title: str) -> None:
    """The first unknown; of an evolution in the plane at the end of the time."""
    values = solution.values[problem.channels[0]][0].numpy()
    if len(problem.space) == 2 and problem.time is not None:
        values = values[-1]
    if not problem.space:
        for color, unknown in zip(LINES, problem.channels, strict=False):
            axes.plot(solution.times, solution.values[unknown][0], color=color)
        style_lines(axes, title, "t")
    elif solution.points is not None:
        x, y = solution.points[0].T
        axes.scatter(x, y, c=values, s=6, linewidths=0, **field_colours(values))
        axes.set_aspect("equal")
        set_labels(axes, title, "x", "y")
    else:
        plane = len(problem.space) == 2
        rows = solution.axes[1] if plane else solution.times
        shown = values.T if plane else values
        axes.pcolormesh(solution.axes[0], rows, shown, rasterized=True, **field_colours(values))
        set_labels(axes, title, "x", "y" if plane else "t")


def reference(name: str) -> None:
    """Draw the reference of one input of a problem, and record its error estimate."""
    problem, begun = piop.Problem.from_file(name).at(), time.monotonic()
    solution = problem.solve_reference(problem.sample(1, seed=1), tolerance=TOLERANCE)
    seconds = time.monotonic() - begun
    drawn = figure(2.6, 2.3)
    axes = drawn.subplots()
    _draw_values(axes, problem, solution, "")
    _write(drawn, DOCS / "images" / "problems" / f"{name}.png")
    found = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    found[name] = {
        "error_estimate": float(solution.error_estimate[0]),
        "accepted": bool(solution.accepted[0]),
        "seconds": round(seconds, 1),
        "torch": torch.__version__,
    }
    REFERENCES.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    print(name, found[name])


def first_solve() -> Figure:
    """Held-out inputs of the operator that the first page trains."""
    with tempfile.TemporaryDirectory() as folder:
        problem = piop.Problem.from_file("reaction_diffusion")
        run = problem.fit(time="30s", threads=1, calibrate=0, out=Path(folder) / "run")
        return run.plot("fields")


DRAWN: dict[str, Callable[[], Figure]] = {
    "laws": laws,
    "patterns": patterns,
    "first_solve": first_solve,
}


def main(names: list[str]) -> None:
    """Draw the pictures of these names, or all, as small PNG files."""
    if names[:1] == ["reference"]:
        for name in names[1:]:
            reference(name)
        return
    for name in names or DRAWN:
        _write(DRAWN[name](), PICTURES / f"{name}.png")


def _write(drawn: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=110)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
