"""The run folder: paths, creation and reading."""

from __future__ import annotations

import datetime
import json
import logging
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from piop.arguments import file_path
from piop.datasets.writer import installed_version
from piop.errors import DamagedFileError, UsageError, check_file_name, check_path
from piop.folder_lock import LOCK, one_writer
from piop.json_values import json_value
from piop.problem import Problem
from piop.training.config import TrainingConfig
from piop.training.loop.checkpoint import METRICS, WEIGHTS
from piop.training.loop.run_files import CHECKSUMS, CONFIG, RunFiles
from piop.training.loss.statistics import Statistics

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the run folder's layout; a newer one than this cannot be read."""

SPEC, EVALUATION, CALIBRATION = "spec.yaml", "evaluation.json", "calibration.json"
DISCRETISATION, PROFILE = "discretisation.json", "profile.json"
FIGURES, REPORT, TENSORBOARD = "figures", "report.html", "tensorboard"
MEMBERS = (METRICS, WEIGHTS, "state", EVALUATION, CALIBRATION, DISCRETISATION, PROFILE, FIGURES,
           TENSORBOARD, REPORT, CHECKSUMS, CONFIG, SPEC)  # fmt: skip
"""What a run writes, in the order in which it is removed: a run folder to the last but one."""

FOLDERS = {
    "state": re.compile(r"(checkpoint|previous)\.pt|\.(checkpoint|previous)\.pt\.tmp"),
    TENSORBOARD: re.compile(r"events\.out\.tfevents\..+"),
    FIGURES: re.compile(
        r"(losses|inferred|discretisation|residual|error_over_time|predictions(_\w+)?)\.png"
        r"|\.\w+\.png\.\w+\.part"
    ),
}
"""Member that is a folder → names of the files that a run writes in it."""

UNFINISHED = {SPEC, "state", CHECKSUMS, LOCK, *(f".{n}.tmp" for n in (SPEC, CONFIG, CHECKSUMS))}
"""All that a run has written when it is killed before it has a config: nothing to lose. A spec
alone may be a user's."""


@final
class RunFolder:
    """Paths in a run folder, and its files.

    Args:
        path: The folder; ``~`` stands for the user's home.
        argument: Name of the argument that gives it, for messages.

    Attributes:
        spec: The spec in its canonical form.
        config: Every choice, versions and seeds.
        files: All files, written atomically and covered by checksums.

    Raises:
        UsageError: If it is no path, such as one that is too long.
    """

    def __init__(self, path: str | Path, argument: str = "path") -> None:
        given = file_path(argument, path)
        try:
            self.path = path = given.expanduser()
        except RuntimeError as error:
            raise UsageError(f"{given}: {error}; give the path in full") from None
        check_path(path, argument)  # what ~ stands for, too
        self.spec, self.config = path / SPEC, path / CONFIG
        self.files = RunFiles(path)
        self._locked = False

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only process that writes, for the length of a block; blocks may be nested.

        Raises:
            UsageError: If another process is writing.
        """
        if self._locked:
            yield
            return
        with one_writer(self.path):
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    def make(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            UsageError: If it cannot be made.
        """
        try:
            (self.path / "state").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be made ({error.strerror}); give another place with --out"
            ) from error

    def begin(
        self,
        problem: Problem,
        config: TrainingConfig,
        statistics: Statistics,
        data: Mapping[str, Any] | None,
        force: bool = False,
        start: Path | None = None,
    ) -> None:
        """Empty the folder of a run before, and write the spec and the config.

        Args:
            problem: The problem.
            config: The configuration of the training.
            statistics: Typical sizes.
            data: The record of the data; None without.
            force: Whether a run folder may be replaced.
            start: The run whose weights the training starts from; None for fresh ones.

        Raises:
            UsageError: If it holds something by now that may not be replaced.
            TrainingError: If a file cannot be written.
        """
        self.require_replaceable(force)
        self._clear()
        self.make()
        record = {
            "format": FORMAT,
            "name": problem.name,
            "hash": problem.hash,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "training": config.to_json(),
            "statistics": statistics.to_json(),
            "data": dict(data) if data else None,
            "start": None if start is None else str(start),
        }
        self.files.write({SPEC: problem.to_yaml().encode(), CONFIG: json_bytes(record)})

    def require_replaceable(self, force: bool) -> None:
        """Make sure that nothing is lost by a new run here.

        Args:
            force: Whether a run folder may be replaced.

        Raises:
            UsageError: If there is something that may not be replaced; for a reserved name.
        """
        if not self.path.exists():
            check_file_name(self.path.name)
            return
        if not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; give a folder with --out")
        found = {p.name for p in self.path.iterdir()}
        ours = force or SPEC not in found or found & {"state", CHECKSUMS}
        if found <= UNFINISHED and ours:
            return
        if not force:
            message = "exists already; choose another --out, or replace it with --force"
            raise UsageError(f"{self.path}: {message}")
        if not self.config.is_file() or not self.spec.is_file():
            message = "is not a run folder, so --force does not replace it; choose another --out"
            raise UsageError(f"{self.path}: {message}")

    def _clear(self) -> None:
        """Remove what a run wrote; anything else in the folder stays."""
        try:
            for member in map(self.path.joinpath, MEMBERS):
                if member.is_dir() and not member.is_symlink():
                    _clear_folder(member)
                else:
                    member.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be replaced ({error.strerror})") from error

    def figures(self) -> Path:
        """Return the folder of the figures, made when missing; a link is replaced by a folder.

        Raises:
            UsageError: If it cannot be made.
        """
        path = self.path / FIGURES
        try:
            if path.is_symlink():
                logger.warning("%s: was a link to %s; is a folder now", path, path.readlink())
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be made ({error.strerror}). Rename or remove what is there, or "
                "give write permission"
            ) from error
        return path

    def require(self) -> None:
        """Make sure that this is a run folder.

        Raises:
            UsageError: If it is none.
        """
        if not self.path.is_dir():
            raise UsageError(f"{self.path}: there is no such run folder")
        if not self.config.is_file():
            raise UsageError(f"{self.path}: is not a run folder: it has no config.json")

    def read_config(self) -> dict[str, Any]:
        """Read the config.

        Raises:
            UsageError: If this is no run folder, or one of a newer format.
            DamagedFileError: If the config is damaged.
        """
        self.require()
        try:
            record = json.loads(self.files.read(CONFIG, ORIGINAL))
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
            DamagedFileError: If the spec is damaged.
            SpecError: If the spec cannot be read.
        """
        if not self.spec.is_file():
            raise UsageError(f"{self.spec}: is missing; the run cannot be used without it")
        if not self.files.covered:
            message = "%s: has no %s, so damage to its files is not noticed"
            logger.info(message, self.path, CHECKSUMS)
        self.files.read(SPEC, ORIGINAL)
        problem = Problem.from_file(self.spec, check_units=False)
        if problem.hash != record["hash"]:
            raise UsageError(
                f"{self.spec}: was changed since the run began (hash {problem.hash[:12]}…, the run "
                f"has {record['hash'][:12]}…). {ORIGINAL}"
            )
        return problem

    def rewrite_config(self, record: Mapping[str, Any]) -> None:
        """Write the config again, and cover the spec too where the folder had no checksums."""
        self.files.write({SPEC: self.spec.read_bytes(), CONFIG: json_bytes(record)})

    def read_json(self, name: str) -> dict[str, Any]:
        """Read what an evaluation has written; nothing where there is no such file.

        Raises:
            DamagedFileError: If it is damaged.
        """
        remedy = f"It is written again by: piop evaluate {self.path}"
        try:
            found = json.loads(self.files.read(name, remedy))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            message = f"is damaged: not JSON ({error}). {remedy}"
            raise DamagedFileError(f"{self.path / name}: {message}") from error
        return found

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file, with null for numbers that are not finite.

        Raises:
            UsageError: If another process is writing.
            TrainingError: If it cannot be written.
        """
        again = (
            f"piop evaluate {self.path}"
            if name in (EVALUATION, CALIBRATION, DISCRETISATION)
            else None
        )
        with self.writing():
            self.files.write({name: json_bytes(json_value(content))}, again=again)


def _clear_folder(folder: Path) -> None:
    """Remove the files of a run in a folder of it, and the folder if nothing else is in it."""
    for file in folder.iterdir():
        if FOLDERS[folder.name].fullmatch(file.name) and (file.is_symlink() or not file.is_dir()):
            file.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


ORIGINAL = "Put it back, or start a new run with: piop solve"
"""Remedy for a spec or config that is not the one the run began with."""


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
    folder = RunFolder(path, "out")
    folder.require_replaceable(force)
    return folder


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file."""
    return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"


def versions() -> dict[str, str]:
    """Name the versions that a run's numbers depend on."""
    packages = ("piop", "torch", "numpy", "sympy")
    return {"python": platform.python_version()} | {p: installed_version(p) for p in packages}
