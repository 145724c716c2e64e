"""Where a benchmark's figures go: one JSON file with the machine, the versions and the date."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def environment() -> dict[str, Any]:
    """Describe the machine, the versions and the commit that a figure belongs to."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1] for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0].strip() if names else cpu
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    versions = {name: importlib.metadata.version(name) for name in ("piop", "torch", "numpy")}
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "commit": commit,
        **versions,
    }


def maker() -> str:
    """Name the maker of the processor, such as ``amd``: its first word in small letters."""
    return re.split(r"\W", environment()["cpu"])[0].lower()


def record(name: str, command: str, figures: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write ``results/NAME.json``: the command that makes it, where it ran, and its figures.

    It takes its place at once when whole, so that a kill never costs an earlier result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {"command": command, "environment": environment(), **figures}
    part = path.with_suffix(".json.tmp")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
    return path
