"""Damage to data sets that piop made, whole ones and parts of unfinished ones."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import torch

from piop import generation
from piop.datasets.lazy_arrays import ESTIMATE
from piop.errors import PiopError
from piop.generation import generate
from piop.problem import Problem
from piop.run.data import GivenData
from tests.faults.corruption import CHANGES, SPEC
from tests.faults.outcome import Outcome

SAMPLES, BATCH = 8, 2
Values = dict[str, torch.Tensor]


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Damage one file of a copy of a data set at a time, then read it, or go on with its parts."""
    draw, problem = random.Random(seed), Problem.from_yaml(SPEC)
    kinds = {"data set, NetCDF": "d.nc", "data set, Zarr": "d.zarr", "unfinished data set": "u.nc"}
    with patch.object(generation, "BATCH", BATCH):
        sound = {kind: made(problem, folder / kind, name) for kind, name in kinds.items()}
        for number in range(count):
            kind = draw.choice([*kinds])
            copy = Path(shutil.copytree(folder / kind, folder / "copy"))
            damaged, change = damage(copy, draw)
            seen = used(problem, copy / kinds[kind], damaged, sound[kind])
            how = f"seed {seed}, number {number}: {change}, {damaged.relative_to(copy)}: {seen}"
            yield Outcome(f"{change}, {kind}", not seen, how)
            shutil.rmtree(copy)


def made(problem: Problem, folder: Path, name: str) -> Values:
    """Make a data set, or one that is ended before its last part; give the values of the whole."""
    folder.mkdir()
    path = folder / name
    generate(problem, SAMPLES, path)
    found = values(problem, path)
    if name.startswith("u"):
        path.unlink()
        ended = KeyboardInterrupt

        def end(done: int) -> None:
            if done == SAMPLES - BATCH:
                raise ended

        try:
            generate(problem, SAMPLES, path, progress=end)
        except ended:
            assert not path.exists()
    return found


def damage(folder: Path, draw: random.Random) -> tuple[Path, str]:
    """Damage a file of numbers, which the lock of parts and their list of choices are not."""
    files = [
        p for p in folder.rglob("*") if p.is_file() and p.name not in ("lock", "manifest.json")
    ]
    file, change = draw.choice(sorted(files)), draw.choice([*CHANGES, "missing file"])
    before = file.read_bytes()
    while change in CHANGES and file.read_bytes() == before:
        file.write_bytes(CHANGES[change](before, draw))
    if change not in CHANGES:
        file.unlink()
    return file, change


def values(problem: Problem, path: Path) -> Values:
    """Finish a data set where it is unfinished, and read all of it, as a training does."""
    if path.with_name(f"{path.name}.parts").exists():
        generate(problem, SAMPLES, path)
    given = GivenData.open(problem, path)
    given.require_trainable(problem)
    data = given.dataset.take(torch.arange(len(given.dataset)))
    inputs = {f"{name} at": item.points for name, item in data.inputs.items()}
    inputs |= {name: item.values for name, item in data.inputs.items()}
    estimate = {} if data.error_estimate is None else {ESTIMATE: data.error_estimate}
    return {**inputs, **data.axes, **data.values, **estimate}


def used(problem: Problem, path: Path, damaged: Path, sound: Values) -> str:
    """What was not noticed; empty where a refusal names the file, or all is as if nothing was."""
    with warnings.catch_warnings(record=True) as noted:
        try:
            found = values(problem, path)
        except PiopError as error:
            named = any(str(name) in str(error) for name in (path, damaged))
            return "" if named and error.exit_code == 2 else f"unclear: {error}"
        except Exception as error:
            return f"uncaught {type(error).__name__}: {error}"
    notes = " ".join(str(warning.message) for warning in noted)
    changed = [
        name
        for name, right in sound.items()
        if (name not in notes if name not in found else not torch.equal(found[name], right))
    ]
    return f"{', '.join(changed)} changed silently" if changed else ""
