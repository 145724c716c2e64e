import math
import os

import pytest
import torch
from safetensors.torch import load_file

from piop.errors import DamagedFileError, UsageError
from piop.training.loop.checkpoint import read_checkpoint, read_weights, save_checkpoint
from piop.training.loop.run_files import RunFiles, checksum

CPU, NO_METRICS = torch.device("cpu"), checksum(b"")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "state").mkdir()
    return RunFiles(tmp_path)


def save(files, step, weights=None, keep=True):
    state = {"step": step, "nested": [{"x": torch.arange(step)}], "none": None}
    weights = {"a": torch.full((2,), float(step))} if weights is None else weights
    save_checkpoint(files, state, weights, NO_METRICS, keep)


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_weights_come_back_bit_by_bit(files):
    weights = {"a": torch.randn(3, 4), "b": torch.randn(2, dtype=torch.float64).t()}
    save(files, 1, weights, keep=False)
    found = read_weights(files)
    assert all(torch.equal(found[k], weights[k]) for k in weights)
    plain = load_file(files.folder / "model.safetensors")
    assert all(torch.equal(plain[k], weights[k]) for k in weights)


def test_missing_or_broken_weights_are_refused(files):
    with pytest.raises(
        UsageError, match=r"no weights \(model.safetensors\) yet; train on with: piop resume"
    ):
        read_weights(files)
    (files.folder / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="not a whole safetensors file"):
        read_weights(files)


def test_damaged_weights_are_refused(files):
    save(files, 1, keep=False)
    damage(files.folder / "model.safetensors")
    with pytest.raises(DamagedFileError, match=r"model.safetensors: is damaged.*piop resume"):
        read_weights(files)


def test_weights_that_are_no_numbers_are_refused_without_checksums_too(files):
    save(files, 1, {"a": torch.tensor([1.0, math.nan])}, keep=False)
    (files.folder / "checksums.json").unlink()
    with pytest.raises(DamagedFileError, match=r"model.safetensors: is damaged: a is not finite"):
        read_weights(files)


def test_a_checkpoint_comes_back_and_the_one_before_is_kept(files, caplog):
    assert read_checkpoint(files, CPU) is None
    save(files, 1, keep=False)
    save(files, 2)
    state, is_last = read_checkpoint(files, CPU)
    assert (state["step"], is_last, state["none"]) == (2, True, None)
    assert torch.equal(state["nested"][0]["x"], torch.arange(2))
    (files.folder / "state" / "checkpoint.pt").unlink()  # killed between two renames
    state, is_last = read_checkpoint(files, CPU)
    assert (state["step"], is_last) == (1, False)
    assert "checkpoint.pt: is missing. Going on from state/previous.pt, of step 1" in caplog.text


def test_a_damaged_checkpoint_is_told_and_the_one_before_used(files, caplog):
    save(files, 1, keep=False)
    save(files, 2)
    damage(files.folder / "state" / "checkpoint.pt")
    state, is_last = read_checkpoint(files, CPU)
    assert (state["step"], is_last) == (1, False)
    assert "checkpoint.pt: is damaged" in caplog.text
    assert "Going on from state/previous.pt, of step 1" in caplog.text
    save(files, 2, keep=is_last)
    damage(files.folder / "state" / "checkpoint.pt")
    assert read_checkpoint(files, CPU)[0]["step"] == 1, "the damaged one was not kept instead"


def test_without_a_whole_checkpoint_the_file_is_named(files):
    save(files, 1, keep=False)
    damage(files.folder / "state" / "checkpoint.pt")
    with pytest.raises(DamagedFileError, match=r"checkpoint.pt: is damaged.*No other checkpoint"):
        read_checkpoint(files, CPU)


def test_a_broken_checkpoint_without_a_checksum_is_refused(files):
    (files.folder / "state" / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.raises(DamagedFileError, match="not a checkpoint"):
        read_checkpoint(files, CPU)


def test_a_checkpoint_that_would_run_code_is_refused(files):
    torch.save({"x": os.getcwd}, files.folder / "state" / "checkpoint.pt")
    with pytest.raises(DamagedFileError, match="not a checkpoint"):
        read_checkpoint(files, CPU)
