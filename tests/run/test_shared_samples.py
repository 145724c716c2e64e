"""Samples that a run was trained on are recognised by their inputs, wherever they come from."""

import json
from dataclasses import replace

import pytest
import torch

from piop.datasets import read_dataset, write_dataset
from piop.generation import generate
from piop.run import Run, fit
from piop.run.data import GivenData, input_digests, split

COUNT = 20


@pytest.fixture(scope="module")
def file(heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.nc"
    generate(heat, COUNT, path, seed=3)
    return path


@pytest.fixture(scope="module")
def run(heat, file, tmp_path_factory):
    settings = {"data_functions": 2, "data_queries": 8}
    out = tmp_path_factory.mktemp("runs") / "r"
    return fit(heat, steps=1, data=file, physics=False, settings=settings, out=out, samples=0)


def warned(run, **arguments):
    found = run.evaluate(write=False, **arguments)["warnings"]
    return [text for text in found if "was trained on" in text]


def test_another_file_of_the_same_seed_judges_with_a_warning(run, heat, tmp_path):
    generate(heat, 8, tmp_path / "again.nc", seed=3, tolerance=1e-3)
    training, _ = split(COUNT, 0)
    shared = int((training < 8).sum())
    (text,) = warned(run, data=tmp_path / "again.nc")
    assert text.startswith(f"the run was trained on the inputs of {shared} of these 8 samples")
    again = Run.load(run.path)
    assert warned(again, data=read_dataset(tmp_path / "again.nc", heat)) == [text]
    assert again.discretisation(data=tmp_path / "again.nc", write=False)["warnings"] == [text]


def test_a_file_of_another_seed_judges_without(run, heat, tmp_path):
    generate(heat, 8, tmp_path / "other.nc", seed=4)
    assert warned(run, data=tmp_path / "other.nc") == []
    assert warned(run) == []  # the held-out part of its own file


def test_held_out_samples_of_its_own_file_are_not_counted(run, file, heat):
    _, held_out = split(COUNT, 0)
    data = read_dataset(file, heat)
    assert warned(run, data=data.subset(held_out)) == []
    assert len(warned(run, data=data)) == 1


def test_a_file_that_holds_samples_twice_judges_with_a_warning(heat, file, tmp_path):
    data = read_dataset(file, heat).subset(torch.arange(COUNT).repeat(2))
    write_dataset(data, tmp_path / "twice.nc", heat)
    run = fit(
        heat, steps=1, data=tmp_path / "twice.nc", physics=False, out=tmp_path / "r", samples=0
    )
    assert "of these 4 samples" in warned(run)[0]


def test_a_run_of_before_is_warned_of_its_own_file(run, file, heat, tmp_path):
    record = {k: v for k, v in run.data.items() if k != "inputs"}
    old = replace(run, data=record)
    assert "was trained on samples, so errors" in warned(old, data=file)[0]
    generate(heat, 8, tmp_path / "again.nc", seed=3)
    assert warned(old, data=tmp_path / "again.nc") == []


def test_digests_follow_the_values_alone(heat, file):
    data = read_dataset(file, heat)
    digests = input_digests(data)
    assert len(set(digests)) == COUNT
    samples = data.inputs["u0"]
    rounded = replace(samples, values=samples.values.float())
    assert input_digests(replace(data, inputs={"u0": rounded})) == digests
    masked = replace(samples, mask=torch.ones(samples.values.shape[:2]).bool())
    assert input_digests(replace(data, inputs={"u0": masked})) == digests
    assert input_digests(replace(data, inputs={})) == []


def test_the_record_is_small_and_made_in_order(heat, file, run):
    record = GivenData.open(heat, file).record()
    assert record == json.loads((run.path / "config.json").read_text())["data"]
    assert record["inputs"] == "".join(input_digests(read_dataset(file, heat)))
