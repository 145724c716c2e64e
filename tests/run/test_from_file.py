"""A data set that stays in its file trains to the numbers of one in memory."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import torch

from piop.datasets import Dataset, StoredDataset, open_dataset, read_dataset, write_dataset
from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.generation import generate
from piop.run import Run, fit, resume

FNO = {"modes": 2, "width": 4, "layers": 1}


@pytest.fixture(scope="module", params=["nc", pytest.param("zarr", marks=pytest.mark.slow)])
def file(request, heat, tmp_path_factory):
    if request.param == "zarr":
        pytest.importorskip("zarr")
    path = tmp_path_factory.mktemp("data") / f"d.{request.param}"
    generate(heat, 24, path, seed=5)
    return path


@pytest.fixture
def kept_in_files(monkeypatch):
    """Memory for nothing: every data set stays in its file."""
    monkeypatch.setattr("piop.datasets.reader.MEMORY_FRACTION", 0.0)


def losses(run):
    return [row["loss"] for row in run.metrics]


OPTIONS = {"device": "cpu", "precision": "float64", "samples": 0, "compile": False}
WAYS = {
    "points": {"physics": False},
    "points and equations": {"physics": True},
    "grid": {"physics": False, "backbone": "fno", "settings": {"data_functions": 3}},
    "soft": {"physics": False, "settings": {"constraints": "soft"}},
}


@pytest.mark.parametrize("way", WAYS)
def test_training_takes_the_same_numbers_from_a_file_as_from_memory(heat, file, way, tmp_path):
    stored = StoredDataset.open(file, heat)
    both = {"memory": read_dataset(file, heat), "file": stored}
    one, two = (
        fit(heat, steps=3, data=data, out=tmp_path / name, **WAYS[way], **OPTIONS)
        for name, data in both.items()
    )
    # interpolating a few inputs at a time rounds otherwise than all at once
    assert losses(one) == pytest.approx(losses(two), rel=1e-10)
    assert one.statistics == two.statistics


def test_a_file_larger_than_memory_is_trained_on_judged_and_resumed(
    heat, file, kept_in_files, tmp_path
):
    run = fit(heat, steps=3, data=file, physics=False, out=tmp_path / "r", device="cpu")
    assert isinstance(run.held_data, StoredDataset)
    first = json.loads((run.path / "evaluation.json").read_text())["relative_l2"]
    assert len(first["per_sample"]) == 2  # a tenth
    assert Run.load(run.path).evaluate(write=False)["relative_l2"] == first
    assert resume(run.path, steps=5, samples=0).metrics[-1]["step"] == 5


def test_never_more_than_a_piece_is_read_at_once(heat, file, kept_in_files, tmp_path, monkeypatch):
    monkeypatch.setattr("piop.datasets.reader.CHUNK_BYTES", 5 * 8 * (5 * 16 + 16))
    from piop.datasets.lazy_arrays import OpenFile

    read, most, own = OpenFile.read, [], tmp_path / "own.nc"
    write_dataset(read_dataset(file, heat), own, heat)

    def spied(opened, index=None):
        if opened.path == str(own):  # and not one that another run reads ahead of itself
            most.append(len(index))
        return read(opened, index)

    monkeypatch.setattr(OpenFile, "read", spied)
    settings = {"data_functions": 4}
    fit(heat, steps=3, data=own, out=tmp_path / "r", settings=settings, **OPTIONS)
    assert 1 < max(most) <= 5
    assert sum(most) > 3 * 24  # it was gone through more than once


def test_a_small_file_is_read_into_memory(heat, file):
    assert isinstance(open_dataset(file, heat), Dataset)


def test_samples_are_read_in_any_order(heat, file):
    whole, stored = read_dataset(file, heat), StoredDataset.open(file, heat)
    index = torch.tensor([7, 3, 3, 20])
    some = stored.take(index)
    assert torch.equal(some.values["u"], whole.values["u"][index])
    assert torch.equal(some.inputs["u0"].values, whole.inputs["u0"].values[index])
    assert torch.equal(some.error_estimate, whole.error_estimate[index])
    part = stored.subset(torch.tensor([5, 9, 2]))
    assert len(part) == 3
    assert torch.equal(part.take(torch.tensor([2, 0])).values["u"], whole.values["u"][[2, 5]])
    last = stored.last_along("t").take(torch.tensor([1]))
    assert torch.equal(last.values["u"], whole.values["u"][1:2, -1:])
    assert torch.cat([p.values["u"] for p in stored.chunks()]).equal(whole.values["u"])


def test_a_bad_value_far_into_the_file_is_found(heat, file, tmp_path, kept_in_files, monkeypatch):
    monkeypatch.setattr("piop.datasets.reader.CHUNK_BYTES", 1000)
    whole = read_dataset(file, heat)
    values = whole.values["u"].clone()
    values[17, 2, 3] = torch.inf
    bad = Dataset(whole.inputs, whole.axes, {"u": values})
    write_dataset(bad, tmp_path / "bad.nc", heat)
    with pytest.raises(DataError, match="'u' is inf in sample"):
        fit(heat, steps=1, data=tmp_path / "bad.nc", out=tmp_path / "r", **OPTIONS)


def test_formats_without_samples_of_their_own_are_refused(heat, file, tmp_path):
    whole = read_dataset(file, heat)
    arrays = {"u": whole.values["u"], "u0": whole.inputs["u0"].values[..., 0], **whole.axes}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match="cannot be read one by one; write the data as NetCDF"):
        StoredDataset.open(tmp_path / "d.npz", heat)


def test_sensors_that_move_are_not_taken_for_a_grid(heat, file, tmp_path):
    """Only the last sample's sensors are elsewhere."""
    from piop.training.batches.input_grid import gridded_inputs

    whole = read_dataset(file, heat)
    assert gridded_inputs(heat, False, StoredDataset.open(file, heat)) == ("u0",)
    points = whole.inputs["u0"].points.clone()
    points[-1, 3] += 0.01
    moved = FunctionSamples(points, whole.inputs["u0"].values)
    path = tmp_path / "moved.nc"
    write_dataset(Dataset({"u0": moved}, whole.axes, whole.values), path, heat)
    assert gridded_inputs(heat, False, StoredDataset.open(path, heat)) == ()


def test_the_next_steps_are_read_while_one_is_learnt_from(heat, file):
    from piop.training.batches.data import AHEAD, StreamedTrajectories

    asked, main = [], threading.get_ident()

    def read(chosen):
        asked.append((int(chosen[0]), threading.get_ident()))
        return "held"

    source = StreamedTrajectories(read, lambda step: torch.tensor([step]), 1)
    for step in (4, 5, 5, 2):
        assert int(source.find(step)[1][0]) == 0
    source.reader.shutdown()
    steps = [step for step, _ in asked]
    assert set(range(4, 5 + AHEAD)) <= set(steps)
    assert steps[:6] == [4, 5, 6, 7, 8, 5]  # 5 once ahead, once again
    assert 2 in steps
    assert main not in {thread for _, thread in asked}
