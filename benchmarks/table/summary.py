"""What the cells say together: means, deviations over inputs and over seeds, a Markdown table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .entries import BACKBONES, ENTRIES

HEAD = ("problem", "backbone", "sensors", "relative L2", "± inputs", "± seeds", "best possible",
        "published", "seeds", "training", "steps", "parameters")  # fmt: skip


def summarise(
    cells: Sequence[Mapping[str, Any]], floors: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Put the seeds of each problem, backbone and view together.

    Args:
        cells: The finished cells.
        floors: Problem → view → statistics of the best possible error.

    Returns:
        One row each: ``mean`` over inputs and seeds; ``over_inputs``, the standard deviation over
        inputs of one seed (root of the mean variance over seeds); ``over_seeds``, that of the
        seeds' means (None for a single seed); and the means of seconds, steps and parameters.
    """
    rows = []
    for problem in ENTRIES:
        for backbone in BACKBONES:
            own = [c for c in cells if (c["problem"], c["backbone"]) == (problem, backbone)]
            views = dict.fromkeys(view for cell in own for view in cell["relative_l2"])
            for view in views:
                found = [c["relative_l2"][view] for c in own if view in c["relative_l2"]]
                means = [f["mean"] for f in found]
                rows.append(
                    {
                        "problem": problem,
                        "backbone": backbone,
                        "sensors": view,
                        "mean": statistics.mean(means),
                        "over_inputs": math.sqrt(statistics.mean(f["std"] ** 2 for f in found)),
                        "over_seeds": statistics.stdev(means) if len(means) > 1 else None,
                        "floor": floors[problem][view]["mean"],
                        "published": _published(problem, backbone, view),
                        "seeds": len(means),
                        "seconds": statistics.mean(c["seconds"] for c in own),
                        "steps": statistics.mean(c["steps"] for c in own),
                        "parameters": own[0]["parameters"],
                    }
                )
    return rows


def _published(problem: str, backbone: str, view: str) -> str | None:
    """Look up the published figure, which belongs to the first view."""
    entry = ENTRIES[problem]
    return entry.published.get(backbone) if view == next(iter(entry.views)) else None


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Print the rows as a Markdown table."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for row in rows:
        spread = "–" if row["over_seeds"] is None else f"{row['over_seeds']:.2g}"
        entries = (
            f"`{row['problem']}`",
            f"`{row['backbone']}`",
            row["sensors"],
            f"**{row['mean']:.4f}**",
            f"{row['over_inputs']:.2g}",
            spread,
            f"{row['floor']:.1g}",
            row["published"] or "–",
            str(row["seeds"]),
            f"{row['seconds']:.0f} s",
            f"{row['steps']:.0f}",
            f"{row['parameters']:,}",
        )
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join(lines)
