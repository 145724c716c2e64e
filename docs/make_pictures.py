"""Draw the pictures of the guide: ``python docs/make_pictures.py [NAME …]``.

``patterns`` and ``laws`` take seconds; ``first_solve`` trains for half a minute on one thread, as
the page does. Nothing else draws the pictures in ``docs/images/guide``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import piop
from piop.report.style import LINES, field_colours, figure, set_labels, style_lines

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "images" / "guide"
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
    first = problem.channels[0]
    values = solution.values[first][0].numpy()
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
        rows = solution.axes[1] if problem.time is None else solution.times
        shown = values.T if problem.time is None else values
        axes.pcolormesh(solution.axes[0], rows, shown, rasterized=True, **field_colours(values))
        set_labels(axes, title, "x", "y" if problem.time is None else "t")


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
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names or DRAWN:
        path = PICTURES / f"{name}.png"
        DRAWN[name]().savefig(path, dpi=110)
        with Image.open(path) as picture:
            small = picture.convert("RGB").quantize(128)
        small.save(path, optimize=True)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
