"""What the cells say together: means, spread over seeds, and differences sample by sample."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from .networks import THEIRS

CONFIDENCE = 0.95
HEAD = ("problem", "test", "network", "seeds", "relative L2", "± seeds", "÷ theirs",
        "difference to theirs, 95 %", "parameters", "rate", "CPU seconds")  # fmt: skip


@dataclass(frozen=True)
class Paired:
    """Difference of two networks on the same samples.

    Attributes:
        mean: Of our error less theirs.
        half: Half the width of its 95 % interval over samples; None for a single sample.
    """

    mean: float
    half: float | None


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    """Compare errors sample by sample by Student's t.

    Raises:
        ValueError: If they are not of the same samples.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"errors of {len(ours)} samples and of {len(theirs)}: not the same ones")
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    count = len(differences)
    if count == 1:
        return Paired(differences[0], None)
    error = statistics.stdev(differences) / math.sqrt(count)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
    return Paired(statistics.mean(differences), quantile * error)


def summarise(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the seeds of each problem, test and network together, best first.

    Args:
        cells: The finished cells.

    Returns:
        One row each. Differences to theirs are of the seeds that both have, errors of a sample
        being averaged over those first.
    """
    rows = []
    for problem in dict.fromkeys(c["problem"] for c in cells):
        own = [c for c in cells if c["problem"] == problem]
        for test in dict.fromkeys(t for c in own for t in c["errors"]):
            found = [
                _row(problem, test, name, own) for name in dict.fromkeys(c["network"] for c in own)
            ]
            rows += sorted(found, key=lambda row: row["mean"])
    return rows


def _row(problem: str, test: str, name: str, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    by_seed = {c["seed"]: c for c in cells if c["network"] == name}
    rivals = {c["seed"]: c for c in cells if c["network"] == THEIRS}
    means = [statistics.mean(c["errors"][test]) for c in by_seed.values()]
    row = {
        "problem": problem,
        "test": test,
        "network": name,
        "seeds": sorted(by_seed),
        "mean": statistics.mean(means),
        "over_seeds": statistics.stdev(means) if len(means) > 1 else None,
        "ratio": None,
        "difference": None,
        "half_interval": None,
        "parameters": next(iter(by_seed.values()))["parameters"],
        "rate": next(iter(by_seed.values()))["rate"],
        "cpu_seconds": statistics.mean(c["cpu_seconds"] for c in by_seed.values()),
    }
    shared = sorted(by_seed.keys() & rivals.keys())
    if name != THEIRS and shared:
        ours = over_seeds([by_seed[s]["errors"][test] for s in shared])
        theirs = over_seeds([rivals[s]["errors"][test] for s in shared])
        between = paired(ours, theirs)
        row["ratio"] = statistics.mean(ours) / statistics.mean(theirs)
        row["difference"], row["half_interval"] = between.mean, between.half
    return row


def over_seeds(errors: Sequence[Sequence[float]]) -> list[float]:
    """Average the error of each sample over seeds."""
    return [statistics.mean(sample) for sample in zip(*errors, strict=True)]


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows as a table."""
    lines = [HEAD, ["---"] * len(HEAD), *map(_texts, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _texts(row: Mapping[str, Any]) -> list[str]:
    half = row["half_interval"]
    difference = "–"
    if row["difference"] is not None:
        difference = f"{row['difference']:+.4f}" + (f" ± {half:.4f}" if half is not None else "")
    return [
        row["problem"],
        row["test"],
        row["network"],
        str(len(row["seeds"])),
        f"{row['mean']:.4f}",
        "–" if row["over_seeds"] is None else f"{row['over_seeds']:.4f}",
        "–" if row["ratio"] is None else f"{row['ratio']:.2f}",
        difference,
        f"{row['parameters']:,}",
        f"{row['rate']:g}",
        f"{row['cpu_seconds']:.0f}",
    ]
