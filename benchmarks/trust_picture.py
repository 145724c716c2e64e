"""Draw the picture of docs/trust.md: error bounds of fresh inputs against their errors.

    python benchmarks/trust_picture.py [--problem NAME] [--time 60s] [--threads N]

The operator is trained with the default recipe and calibrated by `piop solve`'s own 150 inputs; 200
others are bounded. The result is `docs/images/error_bounds.png`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from piop.problem import Problem
from piop.run import Run, fit
from piop.run.error_bounds.answers import indicators_of
from piop.run.error_bounds.calibration import INPUTS, Calibration, errors_and_estimates
from piop.run.evaluation import nonzero_solutions, predict_held_out

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "error_bounds.png"
INK, FIRST, SECOND = "#333333", "#0072B2", "#D55E00"
"""Of text; of points: blue and vermilion of Okabe and Ito, apart for all kinds of sight."""


def draw(run: Run) -> Figure:
    """Draw both kinds of bounds of 200 fresh inputs."""
    problem, model = run.solved, run.model
    held_out = run.sources.for_calibration(problem, 200, 1000, 0).held_out()
    held_out = held_out.take(nonzero_solutions(problem, held_out).nonzero()[:, 0])
    prediction = predict_held_out(problem, model, held_out)
    errors = torch.stack([*errors_and_estimates(problem, held_out, prediction).values()]).amax(0)
    learned = run.calibrate(INPUTS)
    indicators, _ = indicators_of(run, learned, held_out.inputs, len(errors))
    bounds = learned.bounds(indicators, 0.9)[""]
    plain = bounds.new_full(bounds.shape, float(same_for_all(run)))
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    ends = float(errors.min()) / 1.5, float(torch.maximum(plain, bounds).max()) * 1.5
    axes.loglog(ends, ends, color=INK, linewidth=1, label="bound = error")
    axes.loglog(errors, plain, "s", color=SECOND, markersize=3, label="same bound for all")
    axes.loglog(errors, bounds, "o", color=FIRST, markersize=3.5, label="with the indicator")
    axes.set(xlabel="relative L2 error", ylabel="bound at 90 %", xlim=(ends[0], ends[1]))
    axes.xaxis.set_minor_formatter(NullFormatter())  # its labels would overlap
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def same_for_all(run: Run) -> torch.Tensor:
    """Return the bound at 90 % that does not look at the input, from as many scores."""
    problem = run.solved
    held_out = run.sources.for_calibration(problem, INPUTS, 2000, 0).held_out()
    held_out = held_out.take(nonzero_solutions(problem, held_out).nonzero()[:, 0])
    prediction = predict_held_out(problem, run.model, held_out)
    found = Calibration.learn(errors_and_estimates(problem, held_out, prediction), [], {}, {})
    return found.bounds(found.indicator(None, 1), 0.9)[""]


def main() -> None:
    """Parse the arguments, train, draw."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--problem", default="fisher_kpp")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = fit(
            Problem.from_file(options.problem),
            time=options.time,
            out=Path(folder) / "run",
            samples=0,
            calibrate=0,
            threads=options.threads,
        )
        draw(run).savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
