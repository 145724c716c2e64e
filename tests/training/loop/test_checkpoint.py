import errno
import os

import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.training.loop.checkpoint import (
    load_state,
    load_weights,
    save_state,
    save_weights,
    write_atomic,
)


def test_a_written_file_holds_its_content_and_leaves_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", b"one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_keeps_the_version_before(tmp_path, monkeypatch, failing):
    path = tmp_path / "a"
    write_atomic(path, b"one")

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(TrainingError, match=r"No space left.*version before is kept"):
        write_atomic(path, b"two")
    monkeypatch.undo()
    assert path.read_bytes() == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(TrainingError, match="absent"):
        write_atomic(tmp_path / "absent" / "a", b"")


def test_weights_come_back_bit_by_bit(tmp_path):
    weights = {"a": torch.randn(3, 4), "b": torch.randn(2, dtype=torch.float64).t()}
    save_weights(tmp_path / "w", weights)
    found = load_weights(tmp_path / "w")
    assert all(torch.equal(found[k], weights[k]) for k in weights)


def test_missing_or_broken_weights_are_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights(tmp_path / "w")
    (tmp_path / "w").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="not a whole safetensors file"):
        load_weights(tmp_path / "w")


def test_state_comes_back(tmp_path):
    state = {"step": 3, "nested": [{"x": torch.arange(3)}], "none": None}
    save_state(tmp_path / "s", state)
    found = load_state(tmp_path / "s", torch.device("cpu"))
    assert found["step"] == 3
    assert found["none"] is None
    assert torch.equal(found["nested"][0]["x"], torch.arange(3))


def test_a_broken_state_is_refused(tmp_path):
    (tmp_path / "s").write_bytes(b"nonsense")
    with pytest.raises(TrainingError, match="not a checkpoint"):
        load_state(tmp_path / "s", torch.device("cpu"))


def test_a_state_that_would_run_code_is_refused(tmp_path):
    torch.save({"x": os.getcwd}, tmp_path / "s")
    with pytest.raises(TrainingError, match="not a checkpoint"):
        load_state(tmp_path / "s", torch.device("cpu"))
