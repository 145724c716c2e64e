"""Files in the user's cache: whole, bounded, and never in the way."""

import logging
import os

import pytest
import torch

from piop import user_cache

KEY = "ab12"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(user_cache, "_warned", set())
    return tmp_path / "piop" / "references"


def test_contents_are_kept_below_the_users_folder(own_folder):
    assert user_cache.read(KEY) is None
    user_cache.write({KEY: b"content"})
    assert user_cache.read(KEY) == b"content"
    assert [file.name for file in own_folder.iterdir()] == [KEY]


def test_a_relative_folder_counts_as_none(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_cache.folder() == tmp_path / ".cache" / "piop" / "references"


@pytest.mark.parametrize("damage", [b"", b"x", b"content" + bytes(64)])
def test_a_damaged_file_counts_as_missing_and_is_replaced(own_folder, damage):
    user_cache.write({KEY: b"content"})
    (own_folder / KEY).write_bytes(damage)
    assert user_cache.read(KEY) is None
    user_cache.write({KEY: b"new"})
    assert user_cache.read(KEY) == b"new"


def test_tensors_come_back_and_what_is_none_counts_as_missing():
    whole = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    user_cache.write_tensors({KEY: {"part": whole.T[1:], "whole": whole}})
    found = user_cache.read_tensors(KEY)
    assert found is not None
    assert torch.equal(found["part"], whole.T[1:])
    assert torch.equal(found["whole"], whole)
    user_cache.write({KEY: b"no tensors"})
    assert user_cache.read_tensors(KEY) is None


def test_tensors_come_back_in_the_order_in_which_they_were_written():
    tensors = {name: torch.zeros(2) for name in "upvwqabcdefgh"}
    user_cache.write_tensors({KEY: tensors})
    for _ in range(3):  # safetensors itself gives another order each time
        assert [*(user_cache.read_tensors(KEY) or {})] == [*tensors]


def test_those_not_used_for_longest_are_removed(own_folder, monkeypatch):
    monkeypatch.setattr(user_cache, "MOST_BYTES", 3 * (10 + 64))
    user_cache.write({name: bytes(10) for name in "abc"})
    for age, name in enumerate("abc"):
        os.utime(own_folder / name, (100 + age, 100 + age))
    assert user_cache.read("a") is not None  # which makes b the oldest
    user_cache.write({"d": bytes(10)})
    assert sorted(file.name for file in own_folder.iterdir()) == ["a", "c", "d"]


def test_a_place_that_cannot_be_used_is_one_line(own_folder, caplog):
    own_folder.parent.write_bytes(b"")  # a file where a folder should be
    with caplog.at_level(logging.WARNING, logger="piop"):
        for _ in range(2):
            user_cache.write({KEY: b"content"})
            assert user_cache.read(KEY) is None
    (record,) = caplog.records
    assert str(own_folder.parent) in record.getMessage()
    assert "Not a directory" in record.getMessage() or "exists" in record.getMessage()


def test_a_full_disk_is_one_line(own_folder, caplog, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with caplog.at_level(logging.WARNING, logger="piop"):
        user_cache.write({KEY: b"content"})
        user_cache.write({KEY: b"content"})
    (record,) = caplog.records
    assert "No space left on device" in record.getMessage()
    assert list(own_folder.iterdir()) == []
