"""Write `docs/trust_measured.md` from the results of `trust.py` and `typicality.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "trust_measured.md"
HEAD = """# Trust, measured

How error bounds and the test of inputs do on fresh inputs of the distributions of shipped problems;
what they are is in [trust.md](trust.md).
"""
BOUNDS = """
## Error bounds

`python benchmarks/trust.py --threads 1`, {machine}; where n is neither 1000 nor 500, with
`--draws`. After training for the time given, with the default recipe, uncompiled on one thread
beside other work (so errors are larger than an idle machine's), n fresh inputs are predicted and
solved; 200 times 150 of them, chosen at random, calibrate, and the others are bounded.

- **error**: mean relative L2 error, the largest of all unknowns; **spread**: 95 % quantile over 5 %
  quantile.
- **coverage** at 80, 90 and 95 %: the share of inputs within their bounds; promised are {promised}.
- **beyond**: with `--tolerance` at these confidences, answers that exceed the tolerance, in percent
  of all answers, at that of nine tolerances between the errors (their 10 to 90 % quantiles) at
  which there are most; promised are at most 20, 10 and 5. — where the row is older.
- **bound/error**: geometric mean at 90 %; **without**: with the same bound for all inputs.
- **corr.**: rank correlation of indicator and error; — where no indicator was correlated with the
  error.
- **by**: the indicator that was chosen most often: the residual (the linearised error, where a
  lattice resolves it), or the difference from a coarse solution; † where the row was
  measured before there were coarse solutions.

Problems marked *data* are trained on solutions alone.

| problem | trained | n | error | spread | coverage | beyond | bound/error | without | corr. | by |\
 commit |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
ENSEMBLES = """
## Beside an ensemble

The usual way is the spread of several operators, here of five seeds, each trained for the time
given. Their spread, in place of the residual, is the indicator of the error of the first one
(`{command}`).

| problem | trained | corr., residual | spread | bound/error, residual | spread | commit |
|---|---|---|---|---|---|---|
"""
CORRECTIONS = """
## Corrections at prediction time

`{command}`, {machine}. Relative L2 errors and seconds an answer after training for the time given,
uncompiled. **newton** is one step of Newton's method on a lattice (`piop predict --refine`);
**solver**: the reference solver asked for that error (for the operator's own, where there is no
Newton step), 8 inputs together.

| problem | trained | operator | s | newton | worst of 64 | s more | solver, s | commit |
|---|---|---|---|---|---|---|---|---|
"""
ONE_BY_ONE = """
Tried and not kept: the last layer fitted to the residual of one input (one step of Gauss–Newton),
and 50 iterations of L-BFGS on all weights for one input; mean errors of 8 and 4 inputs.

| problem | last layer: before | after | s | L-BFGS: before | after | s |
|---|---|---|---|---|---|---|
"""
INPUTS = """
## Inputs outside the distribution

`python benchmarks/typicality.py`, {machine}. Share of inputs that are flagged at a level of 1 %, at
the sensors of each spec: 10,000 fresh inputs of the distribution (false alarms), and 500 that are
changed. Noise of 0.1 % is to pass.

"""
COVERED = """
Where fewer than 95 % of a kind are flagged, an operator is trained and calibrated, and answers 200
of them (`{command}`, {machine}): an answer is covered where
its error is within the bound at 90 %. Errors and bounds are means over the inputs that are not
flagged.

| problem | trained | change | flagged | flagged or covered | error | bound | commit |
|---|---|---|---|---|---|---|---|
"""


def machine_of(found: dict[str, Any]) -> str:
    """Name the machine and the date of a result."""
    own = found["environment"]
    return f"{own['cores']} cores of {own['cpu']} ({own['date']})"


def bounds_row(key: str, cell: dict[str, Any]) -> str:
    """Format one cell of `trust.json`."""
    name, time, _ = key.split("/")
    coverage, beyond = (
        ", ".join(f"{100 * v:.1f}" for v in cell.get(figure, {}).values()) or "—"
        for figure in ("coverage", "beyond_tolerance")
    )
    correlation = "—" if cell["correlation"] is None else f"{cell['correlation']:.2f}"
    numbers = f"{cell['error']:.2g} | {cell['spread']:.2g} | {coverage} | {beyond}"
    ratios = f"{cell['bound_over_error']:.2f} | {cell['without_residual']:.2f} | {correlation}"
    first = f"`{name}` | {time}{', *data*' if cell.get('data_alone') else ''} | {cell['inputs']}"
    return f"| {first} | {numbers} | {ratios} | {indicator_of(cell)} | {cell['commit']} |"


def indicator_of(cell: dict[str, Any]) -> str:
    """Name the indicator of a cell; before coarse solutions there was the residual alone."""
    names = {"coarse_difference": "coarse solution", "residual": "residual", "none": "—"}
    kinds = cell.get("indicators")
    if kinds is None:
        return "residual†" if cell["with_residual"] > 0.5 else "—†"
    return names[max(kinds, key=lambda kind: kinds[kind])]


def correction_rows(cells: dict[str, Any]) -> str:
    """Format the errors before and after a step of Newton's method, and the solver's time."""
    lines = []
    for name, cell in cells.items():
        newton, solver = cell["newton"], cell["solver"]
        corrected = "— | — | —"
        if newton:
            numbers = f"{newton['after']:.2g} | {newton['worst']:.2g}"
            corrected = f"{numbers} | {newton['seconds']:.2g}"
        time = f"{solver['solver_seconds']:.2g}" if solver else "—"
        operator = f"{cell['error']:.2g} | {cell['seconds']:.2g}"
        first = f"`{name}` | {cell['trained']} | {operator}"
        lines.append(f"| {first} | {corrected} | {time} | {cell['commit']} |")
    return "\n".join(lines) + "\n"


def one_by_one_rows(cells: dict[str, Any]) -> str:
    """Format what fits to single inputs bring."""
    lines = []
    for name, cell in cells.items():
        numbers = [
            " | ".join(f"{cell[way][figure]:.2g}" for figure in ("before", "after", "seconds"))
            for way in ("last_layer", "lbfgs")
            if way in cell
        ]
        if numbers:
            lines.append(f"| `{name}` | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def ensemble_row(key: str, cell: dict[str, Any]) -> str:
    """Format one cell of the ensembles of `trust.json`."""
    name, time, _ = key.split("/")
    numbers = [
        "—" if cell[way][figure] is None else f"{cell[way][figure]:.2f}"
        for figure in ("correlation", "bound_over_error")
        for way in ("residual", "spread")
    ]
    return f"| `{name}` | {time} | {' | '.join(numbers)} | {cell['residual']['commit']} |"


def covered_rows(covered: dict[str, Any]) -> str:
    """Format what becomes of changed inputs that are seldom flagged."""
    lines = []
    for name, cell in covered.items():
        for change, own in cell["changes"].items():
            shares = f"{100 * own['flagged']:.3g} % | {100 * own['flagged or covered']:.3g} %"
            numbers = f"{own['error of the others']:.2g} | {own['their bound']:.2g}"
            first = f"`{name}` | {cell['trained']} | {change}"
            lines.append(f"| {first} | {shares} | {numbers} | {cell['commit']} |")
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """Write the page."""
    bounds = json.loads((RESULTS / "trust.json").read_text())
    inputs = json.loads((RESULTS / "typicality.json").read_text())
    cells = bounds["cells"]
    promised = ", ".join(f"{100 * v:.1f}" for v in next(iter(cells.values()))["promised"].values())
    text = HEAD + BOUNDS.format(machine=machine_of(bounds), promised=promised)
    text += "\n".join(bounds_row(key, cells[key]) for key in sorted(cells)) + "\n"
    if ensembles := bounds.get("ensembles"):
        text += ENSEMBLES.format(command="python benchmarks/trust.py --ensemble --times 20s")
        text += "\n".join(ensemble_row(key, ensembles[key]) for key in sorted(ensembles)) + "\n"
    if (path := RESULTS / "refinement.json").exists():
        refined = json.loads(path.read_text())
        text += CORRECTIONS.format(command=refined["command"], machine=machine_of(refined))
        text += correction_rows(refined["cells"]) + ONE_BY_ONE + one_by_one_rows(refined["cells"])
        start = refined["cells"].get("nonlinear_poisson", {}).get("start")
        if start:
            text += (
                "\nNewton's method of the reference solver for a steady nonlinear problem "
                f"(`nonlinear_poisson`, 8 inputs, all its grids) takes {start['zero']:.2g} s an "
                f"answer from zero and {start['operator']:.2g} s from the operator.\n"
            )
    text += INPUTS.format(machine=machine_of(inputs))
    columns = [c for c in next(iter(inputs["cells"].values())) if "seconds" not in c]
    text += f"| problem | {' | '.join(columns)} | s, first | s, next |\n"
    text += "|---" * (len(columns) + 3) + "|\n"
    for name, cell in inputs["cells"].items():
        shares = " | ".join(f"{100 * cell[c]:.3g} %" for c in columns)
        first, again = cell["seconds of the first"], cell["seconds of the next"]
        text += f"| `{name}` | {shares} | {first:.2g} | {again:.1g} |\n"
    if (path := RESULTS / "typicality_trained.json").exists():
        trained = json.loads(path.read_text())
        text += COVERED.format(command=trained["command"], machine=machine_of(trained))
        text += covered_rows(trained["cells"])
    PAGE.write_text(text)


if __name__ == "__main__":
    write_page()
