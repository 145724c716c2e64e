"""What piop computes, recorded before a refactoring and compared after it, to the last bit.

    PYTHONPATH=. python benchmarks/baseline.py record DIR [--only PATTERN]
    PYTHONPATH=. python benchmarks/baseline.py compare DIR [--only PATTERN]
    PYTHONPATH=. python benchmarks/baseline.py list DIR [--only PATTERN]

All of it in float64 on the CPU, eager, one thread, fixed seeds, each cell in a process of its own:

========= ==========================================================================================
train     every problem that learns from its equation alone, its own recipe, 20 steps
resume    a run of them trained on from its checkpoint
reference two solutions of every problem that has a solver, with their error estimates
data      problems that learn from data, or from data and equations, 8 steps
setting   optimisers, placements, weights of the loss and the like, 10 steps
evaluate  the judgement of runs above on two held-out inputs
preset    every backbone and preset on burgers and heat2d, 20 steps of small batches; those that
          learn from data alone, on data, 8 steps
========= ==========================================================================================

Samples are drawn by the first scheme (``draws=1``), by which the recorded ones were; runs that are
recorded keep it.

Of a training run the rows of the metrics, the final weights (by their bytes, whatever they are
called) and a prediction are kept, with the run folder: ``compare`` trains again, and also predicts
with the old folder. A cell that would train for much more than a minute takes fewer steps, and a
solution that takes more than minutes a wider tolerance; what it took is in its file, so that
``compare`` takes the same.

``record`` goes on where it ended; a cell is done again when its file ``DIR/cells/NAME.json`` is
removed. A cell that fails records the error, and is equal when it fails the same way. ``compare``
prints a line for each cell and exits with 1 if any differs. Both need the same machine and the same
versions of torch and numpy: what differs in them is said first. A pattern is one of fnmatch
(``train/*``), several are separated by commas.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
import xarray as xr
import yaml
from record import environment

import piop

FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
         "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
"""What it runs under, so that nothing depends on the shell that it was started from."""
SPECS = Path(__file__).parent.parent / "pdes"
SECONDS = 60.0  # of training, above which a cell takes fewer steps
PATIENCE = 150.0  # seconds for two solutions, after which the next tolerance is tried
FEWEST = 2  # steps
MEMORY = 12 * 2**30  # bytes that a cell may take; one that needs more is not compared

Cell = dict[str, Any]
Arrays = dict[str, np.ndarray]


class TooSlowError(Exception):
    """Training takes too long; says how many steps fit."""


# What there is to do


def plan(folder: Path) -> list[Cell]:
    """List the cells: those that were planned first, if a plan was made, else all that there are.

    A plan is kept, so that ``compare`` does what ``record`` did.
    """
    path = folder / "plan.json"
    if path.exists():
        return json.loads(path.read_text())
    cells = list(_all_cells())
    write_json(path, cells)
    return cells


def _all_cells() -> Iterator[Cell]:
    entries = _backbones()
    physics = [n for n, why in entries["pit"]["default"]["physics"].items() if why is None]
    physics.remove("burgers_inverse")  # what it infers needs data
    yield from (_fit(f"train/{name}", name, 20, state=name == "burgers") for name in physics)
    yield {"name": "resume/burgers", "kind": "resume", "of": "train/burgers", "steps": 25}
    for path in sorted(SPECS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())
        if spec["equations"] != "data":
            options = [{}, {"tolerance": 1e-4}, {"tolerance": 1e-3}, {"tolerance": 1e-2}]
            yield {
                "name": f"reference/{path.stem}",
                "kind": "reference",
                "spec": path.stem,
                "count": 2 if "inputs" in spec else 1,  # without inputs there is one solution
                "options": options,
            }
    yield from _data_cells()
    yield from _setting_cells()
    judged = [n for n in physics if n not in ("heat3d",)]
    judged_data = ["burgers_inverse", "burgers.mixed", "darcy", "darcy_inverse.fno", "elasticity"]
    for name in [*(f"train/{n}" for n in judged), *(f"data/{n}" for n in judged_data)]:
        yield {"name": f"evaluate/{name.replace('/', '.')}", "kind": "evaluate", "of": name}
    yield from _preset_cells(entries)


def _fit(name: str, spec: str, steps: int, **more: Any) -> Cell:
    return {"name": name, "kind": "fit", "spec": spec, "steps": steps, **more}


def _data_cells() -> Iterator[Cell]:
    """Problems that learn from data; ``data`` says what a file is made of."""
    few = {"data_functions": 3}
    points = {**few, "data_queries": 64}
    burgers = {"spec": "burgers", "count": 6}
    noisy = {"spec": "burgers", "count": 6, "noise": 0.05}
    darcy = {"spec": "darcy", "count": 6}
    flow = {"spec": "navier_stokes_1e-3", "count": 4, "tolerance": 1e-2}
    inverse = {"spec": "darcy_inverse", "count": 4}
    march = {"preset": "march"}
    cells: list[tuple[str, str | None, dict[str, Any], dict[str, Any]]] = [
        ("burgers.mixed", None, burgers, {"functions": 4, "queries": 64, **points}),
        ("burgers.mixed.fno", "fno", burgers, {"functions": 2, "grid": 32, "times": 9, **few}),
        ("burgers_inverse", None, noisy, {"functions": 4, "queries": 64, **points}),
        ("burgers.alone", None, burgers, points),
        ("burgers.alone.deeponet", "deeponet", burgers, points),
        ("burgers.alone.march", "ipot", burgers, {**few, **march}),
        ("darcy", None, darcy, points),
        ("darcy.fno", "fno", darcy, few),
        ("darcy.galerkin", "galerkin", darcy, few),
        ("darcy.galerkin.paper", "galerkin", darcy, {"data_functions": 1, "preset": "paper_darcy"}),
        ("darcy.galerkin.code", "galerkin", darcy, {"data_functions": 1, "preset": "code_darcy"}),
        ("darcy.position_attention", "position_attention", darcy, points),
        ("navier_stokes_1e-3", None, flow, {"data_functions": 2, "data_queries": 64}),
        ("navier_stokes_1e-3.fno", "fno", flow, {"data_functions": 2}),
        ("navier_stokes_1e-3.march", "oformer", flow, {"data_functions": 1, **march}),
        ("darcy_inverse", None, inverse, {"data_functions": 2, "data_queries": 64}),
        ("darcy_inverse.fno", "fno", inverse, {"data_functions": 2}),
        ("elasticity", None, {"spec": "elasticity", "count": 4}, points),
        (
            "elasticity.position_attention",
            "position_attention",
            {"spec": "elasticity", "count": 4},
            points,
        ),
        ("electrostatics", None, {"spec": "electrostatics", "count": 6}, points),
        ("electrostatics.oformer", "oformer", {"spec": "electrostatics", "count": 6}, points),
        ("inviscid_burgers", None, {"spec": "inviscid_burgers", "count": 4}, points),
        ("shock_tube.fno", "fno", {"spec": "shock_tube", "count": 4}, few),
    ]
    for name, backbone, data, settings in cells:
        alone = "mixed" not in name and name != "burgers_inverse"
        more = {"backbone": backbone, "data": data, "physics": not alone, "settings": settings}
        yield _fit(f"data/{name}", name.split(".")[0], 8, **more)


def _setting_cells() -> Iterator[Cell]:
    """One choice at a time beside the default, on a small batch."""
    soft = {"constraints": "soft", "weight_every": 3}
    choices: dict[str, dict[str, Any]] = {
        "adamw": {"optimiser": "adamw", "learning_rate": 1e-3},
        "muon": {"optimiser": "muon"},
        "lbfgs": {"lbfgs": 0.3},
        "average": {"average": 0.9},
        "decay": {"weight_decay": 0.01, "clip": 0.0},
        "sobol": {"method": "sobol"},
        "latin": {"method": "latin_hypercube"},
        "grid": {"method": "grid"},
        "adaptive": {"method": "residual_adaptive"},
        "shared": {"shared": True},
        "horizon": {"horizon": 0.3},
        "causal": {"weighting": "causal"},
        "gradient_norm": {"weighting": "gradient_norm", **soft},
        "ntk": {"weighting": "ntk", **soft},
        "ntk_local": {"weighting": "ntk_local", "weight_every": 3},
        "residual_attention": {"weighting": "residual_attention"},
        "soft": {"constraints": "soft"},
        "absolute": {"relative": False, "front": 0.0},
        "squares": {"root": False},
    }
    small = {"functions": 4, "queries": 64}
    for spec in ("burgers", "wave"):
        for name, choice in choices.items():
            settings = small | choice
            if spec == "wave":
                settings.pop("front", None)
            yield _fit(f"setting/{spec}.{name}", spec, 10, settings=settings)
    yield _fit("setting/burgers.seed", "burgers", 10, settings=small, seed=7)
    yield _fit("setting/burgers.float32", "burgers", 10, settings=small, precision="float32")
    yield _fit("setting/burgers.start", "burgers", 10, settings={}, start="train/burgers")


def _preset_cells(entries: Mapping[str, Any]) -> Iterator[Cell]:
    """Every preset on two problems, on data where it cannot learn from equations."""
    for spec in ("burgers", "heat2d"):
        for backbone, presets in entries.items():
            for preset, entry in presets.items():
                name = f"preset/{spec}.{backbone}.{preset}"
                chosen = {} if preset == "default" else {"preset": preset}
                if entry["physics"][spec] is None:
                    slow = {"learning_rate": 2e-3} if chosen else {}  # some explode at the usual
                    settings = {**_sizes(spec, preset)[entry["field"]], **chosen, **slow}
                    more = {"backbone": backbone, "settings": settings, "seconds": 30.0}
                    yield _fit(name, spec, 20, **more)
                elif entry["data"][spec] is None:
                    data = {"spec": spec, "count": 6 if spec == "burgers" else 4}
                    settings = {"data_functions": 2, **chosen}
                    more = {"backbone": backbone, "data": data, "physics": False}
                    yield _fit(name, spec, 8, settings=settings, **more)


def _sizes(spec: str, preset: str) -> dict[str, dict[str, Any]]:
    """Give small batches for networks that answer at points, on grids and in steps."""
    grid: dict[str, Any] = {"functions": 2, "grid": 64, "times": 9}
    if spec == "heat2d":
        grid = {"functions": 2, "grid": 32, "times": 9}
        if preset != "default":  # published ones are large
            grid = {"functions": 1, "grid": 16, "times": 5}
    march = {key: value for key, value in grid.items() if key != "times"}
    return {"point": {"functions": 4, "queries": 48}, "grid": grid, "march": march}


def _backbones() -> dict[str, Any]:
    """Ask the command line which networks there are and what each learns from."""
    command = [sys.executable, "-m", "piop", "backbones", "--json"]
    said = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(said.stdout)["backbones"]


# Doing a cell


def perform(cell: Cell, folder: Path, place: Path, patient: bool) -> dict[str, Any]:
    """Do a cell.

    Args:
        cell: What to do.
        folder: Where the baseline lies: data, and the runs that others begin from.
        place: An empty folder for what this one writes.
        patient: Whether it may take as long as it takes.

    Returns:
        What was found; arrays and runs lie in ``place``.
    """
    return KINDS[cell["kind"]](cell, folder, place, patient)


def _perform_fit(cell: Cell, folder: Path, place: Path, patient: bool) -> dict[str, Any]:
    began = time.monotonic()

    def watch(row: Mapping[str, float]) -> None:
        done = row["step"]
        if patient or not 1 < done < cell["steps"]:
            return
        each, limit = row["seconds"] / (done - 1), cell.get("seconds", SECONDS)
        if each * cell["steps"] > 1.3 * limit:
            raise TooSlowError(str(max(FEWEST, int(limit / each))))

    data = cell.get("data")
    start = cell.get("start")
    run = piop.Problem.from_file(cell["spec"]).fit(
        steps=cell["steps"],
        backbone=cell.get("backbone"),
        data=None if data is None else data_path(folder, data),
        physics=cell.get("physics", True),
        settings=cell.get("settings"),
        init_from=None if start is None else run_path(folder, start),
        seed=cell.get("seed", 0),
        precision=cell.get("precision", "float64"),
        device="cpu",
        compile=False,
        threads=1,
        samples=0,
        out=place / "run",
        progress=watch,
    )
    if not cell.get("state"):
        shutil.rmtree(place / "run" / "state", ignore_errors=True)
    found = {"metrics": _rows(run), "inferred": dict(run.inferred)}
    asked = folder / "cells" / f"{cell['name']}.asked.npz"
    if not asked.exists():
        source = None if data is None else data_path(folder, data)
        np.savez(asked, **_ask(run.problem, source, run))
    np.savez(place / "prediction.npz", **predict(place / "run", asked))
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def _perform_resume(cell: Cell, folder: Path, place: Path, patient: bool) -> dict[str, Any]:
    shutil.copytree(run_path(folder, cell["of"]), place / "run")
    run = piop.resume(place / "run", steps=cell["steps"], samples=0)
    shutil.rmtree(place / "run" / "state", ignore_errors=True)
    return {"metrics": _rows(run)}


def _perform_evaluate(cell: Cell, folder: Path, place: Path, patient: bool) -> dict[str, Any]:
    run = piop.Run.load(run_path(folder, cell["of"]), "cpu")
    return {"evaluation": run.evaluate(samples=2, write=False)}


def _perform_reference(cell: Cell, folder: Path, place: Path, patient: bool) -> dict[str, Any]:
    problem = piop.Problem.from_file(cell["spec"])
    path = place / "reference.nc"
    said = piop.generate(problem, cell["count"], path, seed=0, draws=1, **cell["options"][0])
    said.pop("path")
    arrays = _arrays_of(path)
    path.unlink()
    np.savez_compressed(place / "reference.npz", **arrays)
    return {"said": said}


KINDS: dict[str, Callable[[Cell, Path, Path, bool], dict[str, Any]]] = {
    "fit": _perform_fit,
    "resume": _perform_resume,
    "evaluate": _perform_evaluate,
    "reference": _perform_reference,
}


def _rows(run: piop.Run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics]


def _arrays_of(path: Path) -> Arrays:
    """Read all numbers of a file of solutions."""
    with xr.open_dataset(path, engine="h5netcdf") as data:
        return {str(n): v.values for n, v in data.variables.items() if v.dtype.kind in "fiub"}


def data_path(folder: Path, data: Mapping[str, Any]) -> Path:
    """Say where a file of solutions lies; it is named by what it is made of."""
    extra = "".join(f".{k}{v}" for k, v in data.items() if k not in ("spec", "count"))
    return folder / "data" / f"{data['spec']}.{data['count']}{extra}.nc"


def run_path(folder: Path, name: str) -> Path:
    """Say where the run of a cell lies."""
    path = folder / "cells" / name / "run"
    if not path.exists():
        raise FileNotFoundError(f"{name} has no run")
    return path


def _make_data(folder: Path, data: Mapping[str, Any]) -> None:
    """Make a file of solutions, once."""
    path = data_path(folder, data)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {k: v for k, v in data.items() if k not in ("spec", "count")}
    problem = piop.Problem.from_file(data["spec"])
    piop.generate(problem, data["count"], path, seed=1, draws=1, **options)


# Predictions: stored inputs in, at stored places


def _ask(problem: Any, source: Path | None, run: piop.Run) -> Arrays:
    """Choose two inputs and places to predict at, as arrays."""
    asked = _inputs(problem) if source is None else _inputs_of(source, problem)
    names = [c.name for c in problem.coordinates]
    axes: dict[str, Any] | None = None
    points = None
    if source is not None:
        queries = piop.read_queries(source, problem)
        axes, points = queries.axes, queries.points
    if points is not None:
        return {**asked, "at": points[:2].numpy()}
    if axes is None:
        axes = {c.name: _axis(c) for c in problem.coordinates}
    limit = {1: 16, 2: 8, 3: 4}[len(problem.space)]
    timely = None if problem.time is None else problem.time.name
    thin = {n: _thinned(axes[n], 3 if n == timely else limit) for n in names}
    grid = {**asked, **{f"axis/{name}": values for name, values in thin.items()}}
    try:
        _predicted(run, grid)
    except piop.PiopError:  # not every network answers everywhere: then where the spec saves
        return asked
    return grid


def _axis(coordinate: Any) -> torch.Tensor:
    low, high, count = float(coordinate.low), float(coordinate.high), 240
    stop = high - (high - low) / count if coordinate.periodic else high
    return torch.linspace(low, stop, count, dtype=torch.float64)


def _thinned(axis: torch.Tensor, count: int) -> np.ndarray:
    """Keep some of an axis: the last of a few, evenly spaced ones."""
    count = min(count, len(axis))
    if count == 3:
        return axis[[len(axis) // 3, len(axis) // 2, len(axis) - 1]].numpy()
    return axis[:: len(axis) // count][:count].numpy()


def _inputs(problem: Any) -> Arrays:
    """Make two waves for every input that is seen."""
    asked: Arrays = {}
    sample = np.arange(2.0)
    for number, item in enumerate(problem.visible_inputs):
        shape = item.sensor_shape
        if not item.of:
            asked[f"input/{item.name}"] = 0.6 + 0.3 * sample
            continue
        shape = shape if len(shape) == len(item.of) else (12,) * len(item.of)
        places = np.meshgrid(*(np.arange(n) / n for n in shape), indexing="ij")
        phase = sum(((1 + axis % 2) * place for axis, place in enumerate(places)), 0.0 * places[0])
        shift = sample.reshape(-1, *(1 for _ in shape))
        asked[f"input/{item.name}"] = 0.5 * np.sin(2 * np.pi * (phase + 0.3 * shift) + number)
    return asked


def _inputs_of(source: Path, problem: Any) -> Arrays:
    """Take the first two samples of a file."""
    asked: Arrays = {}
    for name, samples in piop.read_sensors(source, problem).items():
        asked[f"points/{name}"] = samples.points[:2].numpy()
        asked[f"values/{name}"] = samples.values[:2].numpy()
        if samples.mask is not None:
            asked[f"mask/{name}"] = samples.mask[:2].numpy()
    return asked


def predict(run: Path, asked: Path) -> Arrays:
    """Load a run and predict what is stored."""
    with np.load(asked) as stored:
        return _predicted(piop.Run.load(run, "cpu"), dict(stored))


def _predicted(run: piop.Run, asked: Arrays) -> Arrays:
    parts: dict[str, Arrays] = defaultdict(dict)
    for key, array in asked.items():
        kind, _, name = key.partition("/")
        parts[kind][name] = array
    given: dict[str, Any] = dict(parts["input"])
    for name, points in parts["points"].items():
        mask = parts["mask"].get(name)
        given[name] = piop.FunctionSamples(
            torch.from_numpy(points),
            torch.from_numpy(parts["values"][name]),
            None if mask is None else torch.from_numpy(mask),
        )
    at = asked["at"] if "at" in asked else dict(parts["axis"]) or None
    found = run.predict(given, at)
    return {str(name): np.asarray(variable.values) for name, variable in found.data_vars.items()}


# A process for each cell


def isolated(work: Callable[[], Any], limit: float | None = None) -> dict[str, Any]:
    """Do something in a process of its own, so that nothing of it stays.

    Returns:
        ``value``, or ``failed`` with ``slow`` where it told how many steps fit, and ``lost`` where
        the process ended without a word or was too long at it.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(_in_child(work, told))
        began = time.monotonic()
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            time.sleep(0.05)
            if limit is not None and time.monotonic() - began > limit:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return {"failed": f"no answer in {limit:g} s", "lost": True}
        if not told.exists():
            return {"failed": "the process ended without a word (memory?)", "lost": True}
        return json.loads(told.read_text())


def _in_child(work: Callable[[], Any], told: Path) -> int:
    try:
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        warnings.simplefilter("ignore")
        said: dict[str, Any] = {"value": work()}
    except TooSlowError as error:
        said = {"failed": "slow", "slow": int(str(error))}
    except BaseException as error:  # a cell must not end the others
        said = {
            "failed": f"{type(error).__name__}: {error}",
            "trace": traceback.format_exc().splitlines()[-12:],
        }
        said["lost"] = "memory" in said["failed"].lower()
    told.write_text(json.dumps(said))
    return 0


def do(cell: Cell, folder: Path, place: Path, settled: bool) -> tuple[Cell, dict[str, Any]]:
    """Do a cell in a process of its own.

    Args:
        cell: What to do.
        folder: The baseline.
        place: Where what it writes goes; emptied first.
        settled: Whether the cell says already how many steps or which tolerance it takes.

    Returns:
        The cell as it was done, and what :func:`isolated` gave.
    """
    while True:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        more = len(cell.get("options", [{}])) > 1
        limit = PATIENCE if more and not settled else None
        said = isolated(partial(perform, cell, folder, place, settled), limit)
        if "failed" in said:
            said["failed"] = said["failed"].replace(str(place), "PLACE")
        if "slow" in said:
            cell, settled = {**cell, "steps": said["slow"]}, True
        elif said.get("lost") and more and not settled:
            cell = {**cell, "options": cell["options"][1:]}
        else:
            return cell, said


def record(folder: Path, pattern: str | None) -> int:
    """Record what has not been recorded; give the exit code."""
    _note_environment(folder)
    cells = [cell for cell in plan(folder) if _chosen(cell, pattern)]
    for number, planned in enumerate(cells, 1):
        path = folder / "cells" / f"{planned['name']}.json"
        if path.exists():
            continue
        began = time.monotonic()
        place = folder / "cells" / planned["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        said: dict[str, Any] = {}
        if data := planned.get("data"):
            said = isolated(partial(_make_data, folder, data))
        cell = planned
        if "failed" not in said:
            cell, said = do(planned, folder, place, settled=False)
        if "options" in cell:
            cell = {**cell, "options": cell["options"][:1]}
        seconds = round(time.monotonic() - began, 1)
        write_json(path, {"cell": cell, **said, "took": seconds})
        words = said.get("failed") or _in_short(cell)
        print(f"{number}/{len(cells)} {planned['name']}: {words}  {seconds} s", flush=True)
    return 0


def _in_short(cell: Cell) -> str:
    if "options" in cell:
        return f"done {cell['options'][0] or ''}"
    return f"done {cell.get('steps', '')}"


# Comparison


def compare(folder: Path, pattern: str | None) -> int:
    """Do all again and say what differs; give the exit code."""
    before = json.loads((folder / "environment.json").read_text())
    for key, value in environment().items():
        if key not in ("date", "commit") and before.get(key) != value:
            print(f"note: {key} is {value}, was {before.get(key)}")
    counts: dict[str, int] = defaultdict(int)
    for planned in plan(folder):
        if not _chosen(planned, pattern):
            continue
        word, text = _compare_cell(folder, planned["name"])
        counts[word] += 1
        print(f"{planned['name']}: {word}{text}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if counts["differs"] else 0


def _compare_cell(folder: Path, name: str) -> tuple[str, str]:
    path = folder / "cells" / f"{name}.json"
    if not path.exists():
        return "missing", ""
    old = json.loads(path.read_text())
    if old.get("lost"):
        return "missing", f" ({old['failed']})"
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "cell"
        _, new = do(old["cell"], folder, place, settled=True)
        if "failed" in old or "failed" in new:
            was, now = old.get("failed"), new.get("failed")
            same = was == now
            return ("equal", f" (fails: {was})") if same else ("differs", f": {now}; was {was}")
        differences = differing(old["value"], new["value"])
        differences |= _differing_files(folder, name, place)
    if not differences:
        return "equal", ""
    worst = max(differences, key=lambda key: differences[key])
    others = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
    return "differs", f": {differences[worst]:.3g} of {worst}{others}"


def _differing_files(folder: Path, name: str, place: Path) -> dict[str, float]:
    """Compare weights and arrays, and predict with the old run."""
    old = folder / "cells" / name
    found: dict[str, float] = {}
    for file in ("prediction.npz", "reference.npz"):
        if (old / file).exists():
            with np.load(old / file) as a, np.load(place / file) as b:
                found |= _differing_arrays(dict(a), dict(b), file.removesuffix(".npz"))
    if (weights := old / "run" / "model.safetensors").exists():
        found |= differing_weights(weights, place / "run" / "model.safetensors")
    asked = folder / "cells" / f"{name}.asked.npz"
    if asked.exists() and (old / "prediction.npz").exists():
        again = place / "again.npz"

        def answer() -> None:
            np.savez(again, **predict(old / "run", asked))

        said = isolated(answer)
        if "failed" in said:
            return found | {f"the old run ({said['failed']})": np.inf}
        with np.load(old / "prediction.npz") as a, np.load(again) as b:
            found |= _differing_arrays(dict(a), dict(b), "the old run's prediction")
    return found


def differing(old: Any, new: Any, label: str = "") -> dict[str, float]:
    """Compare numbers in nested lists and dicts; words and times that it took do not count.

    Returns:
        Where they differ → relative difference; infinite where there is none.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in {**old, **new} if "second" not in k and k != "warnings"]
        absent = {f"{label}.{k}": np.inf for k in keys if k not in old or k not in new}
        both = [differing(old[k], new[k], f"{label}.{k}") for k in keys if k in old and k in new]
        return {key: value for part in (absent, *both) for key, value in part.items()}
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return {f"{label} ({len(old)} entries, now {len(new)})": np.inf}
        parts = [
            differing(a, b, f"{label}[{i}]") for i, (a, b) in enumerate(zip(old, new, strict=True))
        ]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(old, str) and isinstance(new, str):
        return {}
    if old == new or (old != old and new != new):
        return {}
    if isinstance(old, int | float) and isinstance(new, int | float):
        return {label: _relative(np.array(old, float), np.array(new, float))}
    return {label: np.inf}


def _differing_arrays(old: Arrays, new: Arrays, label: str) -> dict[str, float]:
    found = {f"{label}: {n}": np.inf for n in old.keys() ^ new.keys()}
    for name in old.keys() & new.keys():
        a, b = old[name], new[name]
        if (a.shape, a.dtype, a.tobytes()) != (b.shape, b.dtype, b.tobytes()):
            found[f"{label}: {name}"] = _relative(a, b)
    return found


def differing_weights(old: Path, new: Path) -> dict[str, float]:
    """Compare the weights of two files as multisets of arrays, whatever they are called."""
    a, b = (safetensors.numpy.load_file(path) for path in (old, new))
    rest: dict[tuple[Any, ...], list[np.ndarray]] = defaultdict(list)
    for array in b.values():
        rest[_print_of(array)].append(array)
    alone = {}
    for name, array in a.items():
        twins = rest[_print_of(array)]
        if twins:
            twins.pop()
        else:
            alone[name] = array
    left = [array for arrays in rest.values() for array in arrays]
    found = {}
    for name, array in alone.items():
        alike = [_relative(array, other) for other in left if other.shape == array.shape]
        found[f"weights: {name}"] = min(alike, default=np.inf)
    if len(left) != len(alone):
        found[f"weights: {len(a)} arrays, now {len(b)}"] = np.inf
    return found


def _print_of(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).hexdigest()


def _relative(old: np.ndarray, new: np.ndarray) -> float:
    """Give the largest difference as a share of the largest value."""
    if old.shape != new.shape or old.dtype.kind not in "fiub":
        return np.inf
    first, second = old.astype(float), new.astype(float)
    if not np.array_equal(np.isfinite(first), np.isfinite(second)):
        return np.inf
    there = np.isfinite(first)
    gap = np.abs(first - second)[there].max(initial=0.0)
    return float(gap / max(np.abs(first[there]).max(initial=0.0), 1e-300))


# Command line


def _note_environment(folder: Path) -> None:
    path = folder / "environment.json"
    if not path.exists():
        write_json(path, {**environment(), "piop_at": piop.__file__})
    print(f"piop is {piop.__file__}", flush=True)


def _chosen(cell: Cell, pattern: str | None) -> bool:
    if pattern is None:
        return True
    return any(fnmatch.fnmatch(cell["name"], part) for part in pattern.split(","))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file that is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".tmp")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["record", "compare", "list"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", metavar="PATTERN")
    options = parser.parse_args()
    if any(os.environ.get(key) != value for key, value in FIXED.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **FIXED})
    folder = options.folder.resolve()
    torch.set_num_threads(1)
    if options.command == "record":
        return record(folder, options.only)
    if options.command == "compare":
        return compare(folder, options.only)
    for cell in plan(folder):
        if _chosen(cell, options.only):
            print(cell["name"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
