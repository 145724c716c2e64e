"""The run folder: paths, creation and reading."""

from __future__ import annotations

import datetime
import json
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from piop.datasets.writer import installed_version
from piop.errors import UsageError
from piop.problem import Problem
from piop.training.config import TrainingConfig
from piop.training.loop.checkpoint import write_atomic
from piop.training.loss.statistics import Statistics

FORMAT = 1
"""Version of the run folder's layout; a newer one than this cannot be read."""

MEMBERS = ("spec.yaml", "config.json", "metrics.jsonl", "model.safetensors", "state",
           "evaluation.json", "discretisation.json", "profile.json", "figures",
           "report.html")  # fmt: skip

UNFINISHED = {"spec.yaml", "state", ".spec.yaml.tmp", ".config.json.tmp"}
"""All that a run has written when it is killed before it has a config: nothing to lose."""


@final
class RunFolder:
    """Paths in a run folder.

    Args:
        path: The folder.

    Attributes:
        spec: The spec in its canonical form.
        config: Every choice, versions and seeds.
        weights: The weights that predict.
        metrics: One JSON object a line.
        evaluation: Accuracy on held-out inputs.
        discretisation: Accuracy over sensors and grids, where that was evaluated.
        profile: Time of each part of a step, where that was profiled.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.spec = path / "spec.yaml"
        self.config = path / "config.json"
        self.weights = path / "model.safetensors"
        self.metrics = path / "metrics.jsonl"
        self.evaluation = path / "evaluation.json"
        self.discretisation = path / "discretisation.json"
        self.profile = path / "profile.json"

    def begin(
        self,
        problem: Problem,
        config: TrainingConfig,
        statistics: Statistics,
        data: Mapping[str, Any] | None,
    ) -> None:
        """Make the folder, or empty it of a run before, and write the spec and the config.

        Raises:
            UsageError: If the folder cannot be made.
            TrainingError: If a file cannot be written.
        """
        if self.path.is_dir():
            self._clear()
        try:
            (self.path / "state").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be made ({error.strerror}); give another place with --out"
            ) from error
        write_atomic(self.spec, problem.to_yaml().encode())
        record = {
            "format": FORMAT,
            "name": problem.name,
            "hash": problem.hash,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "training": config.to_json(),
            "statistics": statistics.to_json(),
            "data": dict(data) if data else None,
        }
        write_json(self.config, record)

    def _clear(self) -> None:
        """Remove what a run wrote; anything else in the folder stays."""
        try:
            for member in map(self.path.joinpath, MEMBERS):
                if member.is_dir() and not member.is_symlink():
                    shutil.rmtree(member)
                else:
                    member.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be replaced ({error.strerror})") from error

    def read_config(self) -> dict[str, Any]:
        """Read the config.

        Raises:
            UsageError: If this is no run folder, or one of a newer format.
        """
        if not self.path.is_dir():
            raise UsageError(f"{self.path}: there is no such run folder")
        if not self.config.is_file():
            raise UsageError(f"{self.path}: is not a run folder: it has no config.json")
        try:
            record = json.loads(self.config.read_text())
            found = int(record["format"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.config}: is not the config of a run ({error})") from error
        if found > FORMAT:
            made_by = record.get("versions", {}).get("piop", "?")
            raise UsageError(
                f"{self.path}: has format {found}, this version reads up to {FORMAT}; "
                f"it needs piop {made_by} or later"
            )
        return record

    def read_problem(self, record: Mapping[str, Any]) -> Problem:
        """Read the spec and check that it is the one the run began with.

        Raises:
            UsageError: If the spec is missing or its hash differs.
            SpecError: If the spec cannot be read.
        """
        if not self.spec.is_file():
            raise UsageError(f"{self.spec}: is missing; the run cannot be used without it")
        problem = Problem.from_file(self.spec)
        if problem.hash != record["hash"]:
            raise UsageError(
                f"{self.spec}: was changed since the run began (hash {problem.hash[:12]}…, the run "
                f"has {record['hash'][:12]}…). Put it back, or start a new run with: piop solve"
            )
        return problem


def new_folder(path: str | Path | None, name: str, force: bool) -> RunFolder:
    """Choose the folder of a new run and make sure that nothing is lost by it.

    Args:
        path: Where; by default ``runs/NAME-DATE-TIME``.
        name: Of the problem.
        force: Replace a run folder that is there.

    Raises:
        UsageError: If there is something already that may not be replaced.
    """
    if path is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        path, count = Path("runs") / f"{name}-{stamp}", 1
        while path.exists():
            count += 1
            path = Path("runs") / f"{name}-{stamp}-{count}"
    folder = RunFolder(path)
    if not folder.path.exists():
        return folder
    if not folder.path.is_dir():
        raise UsageError(f"{path}: is a file; give a folder with --out")
    if {p.name for p in folder.path.iterdir()} <= UNFINISHED:
        return folder
    if not force:
        message = "exists already; choose another --out, or replace it with --force"
        raise UsageError(f"{path}: {message}")
    if not folder.config.is_file() or not folder.spec.is_file():
        message = "is not a run folder, so --force does not replace it; choose another --out"
        raise UsageError(f"{path}: {message}")
    return folder


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically.

    Raises:
        TrainingError: If it cannot be written.
    """
    write_atomic(path, json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run folder; nothing where there is none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def versions() -> dict[str, str]:
    """Name the versions that a run's numbers depend on."""
    packages = ("piop", "torch", "numpy", "sympy", "pytorch_optimizer")
    return {"python": platform.python_version()} | {p: installed_version(p) for p in packages}
