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

`{command}`, {machine}. After training for the time given, with the default recipe, uncompiled on
one thread, fresh inputs are predicted and solved; 200 times 150 of them, chosen at random,
calibrate, and the others are bounded.

- **error**: mean relative L2 error, the largest of all unknowns; **spread**: 95 % quantile over 5 %
  quantile.
- **coverage** at 80, 90 and 95 %: the share of inputs within their bounds; promised are {promised}.
- **bound/error**: geometric mean at 90 %; **without**: with the same bound for all inputs.
- **corr.**: rank correlation of indicator and error; — where the residual was not correlated
  with the error.

| problem | trained | inputs | error | spread | coverage | bound/error | without | corr. | commit |
|---|---|---|---|---|---|---|---|---|---|
"""
INPUTS = """
## Inputs outside the distribution

`{command}`, {machine}. Share of inputs that are flagged at a level of 1 %, at the sensors of each
spec: 10,000 fresh inputs of the distribution (false alarms), and 500 that are changed. Noise of
0.1 % is to pass.

"""


def machine_of(found: dict[str, Any]) -> str:
    """Name the machine and the date of a result."""
    own = found["environment"]
    return f"{own['cores']} cores of {own['cpu']} ({own['date']})"


def bounds_row(key: str, cell: dict[str, Any]) -> str:
    """Format one cell of `trust.json`."""
    name, time, _ = key.split("/")
    coverage = ", ".join(f"{100 * v:.1f}" for v in cell["coverage"].values())
    correlation = "—" if cell["correlation"] is None else f"{cell['correlation']:.2f}"
    numbers = f"{cell['error']:.2g} | {cell['spread']:.2g} | {coverage}"
    ratios = f"{cell['bound_over_error']:.2f} | {cell['without_residual']:.2f} | {correlation}"
    first = f"`{name}` | {time} | {cell['inputs']}"
    return f"| {first} | {numbers} | {ratios} | {cell['commit']} |"


def write_page() -> None:
    """Write the page."""
    bounds = json.loads((RESULTS / "trust.json").read_text())
    inputs = json.loads((RESULTS / "typicality.json").read_text())
    cells = bounds["cells"]
    promised = ", ".join(f"{100 * v:.1f}" for v in next(iter(cells.values()))["promised"].values())
    text = HEAD + BOUNDS.format(
        command=bounds["command"], machine=machine_of(bounds), promised=promised
    )
    text += "\n".join(bounds_row(key, cells[key]) for key in sorted(cells)) + "\n"
    text += INPUTS.format(command=inputs["command"], machine=machine_of(inputs))
    columns = [c for c in next(iter(inputs["cells"].values())) if "seconds" not in c]
    text += f"| problem | {' | '.join(columns)} | s, first | s, next |\n"
    text += "|---" * (len(columns) + 3) + "|\n"
    for name, cell in inputs["cells"].items():
        shares = " | ".join(f"{100 * cell[c]:.3g} %" for c in columns)
        first, again = cell["seconds of the first"], cell["seconds of the next"]
        text += f"| `{name}` | {shares} | {first:.2g} | {again:.1g} |\n"
    PAGE.write_text(text)


if __name__ == "__main__":
    write_page()
