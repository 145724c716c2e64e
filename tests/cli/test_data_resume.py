"""A data set that is killed on the way goes on, with not one sample lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from hashlib import blake2b

import numpy as np
import pytest
import xarray as xr

from piop.datasets import open_dataset
from piop.datasets.atomic_output import Shards
from piop.errors import DataError, UsageError
from piop.generation import generate
from piop.problem import Problem

COUNT = 12
SLOW = """
import sys, time
import piop.generation as g
from piop.problem import Problem
g.BATCH = 2
solve, append = g._solve, g._write
def slow_solve(*a):
    time.sleep(0.3)
    return solve(*a)
def slow_write(*a, **k):
    append(*a, **k)
    time.sleep(0.3)
if sys.argv[2] == "solving":
    g._solve = slow_solve
else:
    g._write = slow_write
g.generate(Problem.from_file("heat"), 12, sys.argv[1], seed=4)
"""


def wait_until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def counted(monkeypatch):
    """Batches of two samples, and the samples that are solved."""
    import piop.generation

    solve, seen = piop.generation._solve, []
    monkeypatch.setattr(piop.generation, "BATCH", 2)
    monkeypatch.setattr(
        piop.generation, "_solve", lambda p, own, *a: (seen.extend(own), solve(p, own, *a))[1]
    )
    return seen


def killed(path, phase, begun):
    """Begin a data set, and kill the process with no chance to clean up."""
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path), phase])
    wait_until(begun)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not path.exists()


@pytest.mark.parametrize("phase", ["solving", "writing"])
@pytest.mark.parametrize("suffix", ["nc", pytest.param("zarr", marks=pytest.mark.slow)])
def test_killed_in_the_middle_it_goes_on_to_the_same_bits(phase, suffix, counted, tmp_path):
    if suffix == "zarr":
        pytest.importorskip("zarr")
    problem, path = Problem.from_file("heat"), tmp_path / f"d.{suffix}"
    parts = tmp_path / f"d.{suffix}.parts"
    wanted = {"solving": "000000004-*.safetensors", "writing": ".d.*.part"}[phase]
    killed(path, phase, lambda: list(parts.glob(wanted)))
    there = len(list(parts.glob("*.safetensors"))) * 2
    assert 4 < there < COUNT if phase == "solving" else there == COUNT
    found = generate(problem, COUNT, path, seed=4)
    assert found["resumed"] == there
    assert counted == list(range(there, COUNT))  # none again, none left out
    counted.clear()
    whole = tmp_path / f"whole.{suffix}"
    generate(problem, COUNT, whole, seed=4)
    assert counted == list(range(COUNT))
    if suffix == "nc":
        assert path.read_bytes() == whole.read_bytes()
    else:
        for file in whole.rglob("*"):
            if file.is_file():
                assert (path / file.relative_to(whole)).read_bytes() == file.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, whole.name]


def test_a_file_says_how_each_sample_was_solved(tmp_path):
    problem = Problem.from_file("burgers_wang")
    generate(problem, 2, tmp_path / "d.nc", tolerance=1e-3)
    with xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as data:
        assert data["reference_accepted"].values.tolist() == [1, 1]
        assert data["reference_points"].shape == (2, 1)
        assert (data["reference_points"] >= 64).all()
        assert ((data["reference_step"] > 0) & (data["reference_step"] < 1)).all()
        assert data.attrs["reference"] == "Fourier pseudo-spectral, ETDRK4"


def test_samples_that_miss_the_tolerance_are_marked(tmp_path, monkeypatch, caplog):
    import piop.generation

    solve = piop.generation._solve

    def spoiled(*arguments):
        found = solve(*arguments)
        found["reference_accepted"][1] = 0
        return found

    monkeypatch.setattr(piop.generation, "_solve", spoiled)
    assert generate(Problem.from_file("heat"), 3, tmp_path / "d.nc")["above_tolerance"] == 1
    with xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as data:
        assert data["reference_accepted"].values.tolist() == [1, 0, 1]


def stop_after_one_batch(path, **options):
    """Begin a data set and have it fail in its second batch."""

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(Problem.from_file("heat"), COUNT, path, progress=stop, **options)


def test_more_samples_of_the_same_data_set_take_those_that_are_there(counted, tmp_path):
    stop_after_one_batch(tmp_path / "d.nc")
    counted.clear()
    generate(Problem.from_file("heat"), 5, tmp_path / "d.nc")
    assert counted == [2, 3, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--seed", 1], "seed was 0, now 1"), (["--tolerance", 1e-4], "tolerance was 1e-06, now")],
)
def test_parts_of_another_data_set_are_refused(options, said, counted, piop, tmp_path):
    stop_after_one_batch(tmp_path / "d.nc")
    code, _, err = piop("data", "heat", "-n", COUNT, "--output", tmp_path / "d.nc", *options)
    assert code == 2
    assert said in err
    assert "d.nc.parts holds parts of another data set" in err
    assert (tmp_path / "d.nc.parts" / "000000000-000000002.safetensors").exists()


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-9], lambda c: c[:-99] + bytes([c[-99] ^ 1]) + c[-98:]]
)
def test_a_damaged_part_is_named_and_made_again_once_it_is_removed(damage, counted, piop, tmp_path):
    stop_after_one_batch(tmp_path / "d.nc")
    (part,) = (tmp_path / "d.nc.parts").glob("*.safetensors")
    part.write_bytes(damage(part.read_bytes()))
    arguments = ("data", "heat", "-n", COUNT, "--output", tmp_path / "d.nc")
    code, _, err = piop(*arguments)
    assert code == 2
    assert f"{part}: is damaged" in err
    part.unlink()
    assert piop(*arguments)[0] == 0


def without_checksum(part):
    """Make a part as it was before there were checksums."""
    part.write_bytes(part.read_bytes()[: -blake2b.MAX_DIGEST_SIZE])


def test_parts_made_before_there_were_checksums_are_used_with_a_note(counted, tmp_path, caplog):
    stop_after_one_batch(tmp_path / "d.nc")
    (part,) = (tmp_path / "d.nc.parts").glob("*.safetensors")
    without_checksum(part)
    counted.clear()
    with caplog.at_level("INFO"):
        generate(Problem.from_file("heat"), 4, tmp_path / "d.nc")
    assert counted == [2, 3]
    assert f"{part}: has no checksum" in caplog.text
    generate(Problem.from_file("heat"), 4, tmp_path / "whole.nc")
    assert (tmp_path / "d.nc").read_bytes() == (tmp_path / "whole.nc").read_bytes()


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_two_at_once_are_refused(force, counted, piop, tmp_path):
    ends = []

    def again(done):
        ends.append(piop("data", "heat", "-n", 4, "--output", tmp_path / "d.nc", *force)[::2])

    generate(Problem.from_file("heat"), 2, tmp_path / "d.nc", progress=again)
    ((code, said),) = ends
    assert code == 2
    assert "d.nc.parts: is being written by" in said
    assert f"(process {os.getpid()}, since" in said
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc"]


def test_one_that_comes_as_the_first_has_ended_keeps_its_folder(tmp_path):
    """The first has removed its parts, but has not left yet, when the second makes its own."""
    path = tmp_path / "d.nc"
    with Shards.open(path, {}) as first:
        first.write(range(1), b"")
        first.remove()
        with pytest.raises(UsageError, match="is being written by"), Shards.open(path, {}):
            pass
    with Shards.open(path, {}) as second:
        second.write(range(1), b"")
        assert second.has(range(1))
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc.parts"]


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_finished_data_set_is_replaced_by_request_alone(suffix, piop, tmp_path):
    if suffix == "zarr":
        pytest.importorskip("zarr")
    path = tmp_path / f"d.{suffix}"
    samples = {}
    for count, *force in ((3,), (1,), (2, "--force")):
        code, _, err = piop("data", "heat", "-n", count, "--output", path, *force)
        samples[count] = len(open_dataset(path, Problem.from_file("heat")))
        assert [p.name for p in tmp_path.iterdir()] == [path.name]
        if count == 1:
            assert code == 2
            assert f"{path}: exists already; give another name, or replace it with --force" in err
    assert samples == {3: 3, 1: 3, 2: 2}


def test_a_killed_job_that_had_only_its_parts_to_remove_goes_on(tmp_path, monkeypatch):
    heat, path = Problem.from_file("heat"), tmp_path / "d.nc"
    monkeypatch.setattr(Shards, "remove", lambda self: None)
    generate(heat, 3, path)
    monkeypatch.undo()
    assert generate(heat, 3, path)["resumed"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc"]


def test_a_file_that_appears_in_the_meantime_is_not_replaced(tmp_path):
    path = tmp_path / "d.nc"
    with pytest.raises(UsageError, match="exists already"):
        generate(Problem.from_file("heat"), 3, path, progress=lambda _: path.write_text("mine"))
    assert path.read_text() == "mine"


def test_a_job_that_solved_nothing_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    path, heat = tmp_path / "d.nc", Problem.from_file("heat")
    with pytest.raises(Exception, match=r"device|cuda|CUDA"):
        generate(heat, 1, path, device="nowhere")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Shards, "remove", lambda self: None)  # as when it is killed
    with pytest.raises(Exception, match=r"device|cuda|CUDA"):
        generate(heat, 1, path, device="nowhere")
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc.parts"]
    generate(heat, 1, path)
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc"]


def test_the_command_says_that_it_went_on(counted, piop, tmp_path):
    stop_after_one_batch(tmp_path / "d.nc")
    arguments = ("data", "heat", "-n", 4, "--output", tmp_path / "d.nc")
    code, out, _ = piop(*arguments, "--json")
    assert code == 0
    assert json.loads(out)["resumed"] == 2


def test_zarr_holds_what_netcdf_holds(piop, tmp_path):
    pytest.importorskip("zarr")
    for name in ("d.nc", "d.zarr"):
        assert piop("data", "heat", "-n", 3, "--output", tmp_path / name)[0] == 0
    with (
        xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as one,
        xr.open_zarr(tmp_path / "d.zarr", consolidated=False) as two,
    ):
        assert set(one.variables) == set(two.variables)
        for name in one.variables:
            assert one[name].dims == two[name].dims
            assert one[name].attrs == two[name].attrs
            np.testing.assert_array_equal(one[name].values, two[name].values)
        assert one.attrs == {k: v for k, v in two.attrs.items() if k != "piop_checksum"}


def test_a_folder_that_is_no_zarr_is_not_replaced(piop, tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "d.zarr").mkdir()
    (tmp_path / "d.zarr" / "mine").write_text("text")
    code, _, err = piop("data", "heat", "-n", 1, "--output", tmp_path / "d.zarr")
    assert code == 2
    assert "d.zarr: cannot be written: it is there and holds no zarr.json" in err
    assert (tmp_path / "d.zarr" / "mine").read_text() == "text"


def test_a_zarr_folder_is_replaced_when_the_new_one_is_whole(piop, tmp_path):
    pytest.importorskip("zarr")
    for count in (3, 1):
        assert piop("data", "heat", "-n", count, "--output", tmp_path / "d.zarr", "--force")[0] == 0
    with xr.open_zarr(tmp_path / "d.zarr", consolidated=False) as data:
        assert data.sizes["sample"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["d.zarr"]


def test_without_its_library_zarr_is_refused(piop, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    code, _, err = piop("data", "heat", "-n", 1, "--output", tmp_path / "d.zarr")
    assert code == 2
    assert "pip install 'piop[zarr]'" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("manifest", [None, "{}", "not json", '["a"]', '{"photos": 3}'])
def test_a_folder_of_a_user_is_refused_and_left_as_it_is(manifest, counted, piop, tmp_path):
    folder = tmp_path / "d.nc.parts"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "a.part").write_text("mine")
    for name in ("keep.txt", ".mine.part", "weights.safetensors", "lock.txt"):
        (folder / name).write_text("mine")
    if manifest is not None:
        (folder / "manifest.json").write_text(manifest)
    before = {p: p.is_file() and p.read_bytes() for p in folder.rglob("*")}
    for force in ([], ["--force"]):
        code, _, err = piop("data", "heat", "-n", 2, "--output", tmp_path / "d.nc", *force)
        assert code == 2
        assert f"{folder} is there and holds no manifest.json of piop" in err
        assert "Rename or remove it, or give another --output" in err
    assert {p: p.is_file() and p.read_bytes() for p in folder.rglob("*")} == before
    assert counted == []
    assert not (tmp_path / "d.nc").exists()


def test_parts_without_their_manifest_are_refused(counted, piop, tmp_path):
    stop_after_one_batch(tmp_path / "d.nc")
    (tmp_path / "d.nc.parts" / "manifest.json").unlink()
    code, _, err = piop("data", "heat", "-n", COUNT, "--output", tmp_path / "d.nc")
    assert code == 2
    assert "holds no manifest.json of piop" in err


def test_a_file_of_a_user_among_the_parts_stays(counted, tmp_path):
    path, folder = tmp_path / "d.nc", tmp_path / "d.nc.parts"
    stop_after_one_batch(path)
    mine = [folder / n for n in ("notes.txt", ".notes.part", "x.safetensors", "lock.txt")]
    for file in mine:
        file.write_text("mine")
    (folder / "photos").mkdir()
    (folder / ".d.nc.killed00.part").write_text("of a process that was killed")
    generate(Problem.from_file("heat"), COUNT, path)
    assert len(open_dataset(path, Problem.from_file("heat"))) == COUNT
    assert sorted(folder.iterdir()) == sorted([*mine, folder / "photos"])


def test_a_job_that_ends_before_its_first_part_leaves_the_files_of_a_user(tmp_path):
    path, heat = tmp_path / "d.nc", Problem.from_file("heat")
    with pytest.raises(RuntimeError, match="stop"), Shards.open(path, {}) as shards:
        (shards.folder / "notes.txt").write_text("mine")
        (shards.folder / "photos").mkdir()
        raise RuntimeError("stop")
    assert sorted(p.name for p in shards.folder.iterdir()) == ["notes.txt", "photos"]
    with pytest.raises(DataError, match=r"holds no manifest.json of piop"):
        generate(heat, 1, path)
