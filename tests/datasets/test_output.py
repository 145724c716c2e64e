"""Output files appear whole or not at all, and what was there survives a failure."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from piop.datasets import replacing
from piop.errors import DataError, PiopError


def test_the_file_appears_when_the_block_ends(tmp_path):
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_permissions_follow_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        with replacing(tmp_path / "a"):
            pass
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("x")]
)
def test_the_last_file_survives_a_full_disk(error, tmp_path):
    (tmp_path / "a").write_text("old")
    with (
        pytest.raises(
            PiopError,
            match=r"cannot be written.*was there is unchanged\. (Free some|Write)",
        ) as e,
        replacing(tmp_path / "a") as temporary,
    ):
        temporary.write_text("half")
        raise error
    assert e.value.exit_code == 1
    assert (tmp_path / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_error_of_the_block_itself_passes_through(tmp_path):
    for error in (ValueError("own"), KeyboardInterrupt(), DataError("mine")):
        with pytest.raises(type(error)), replacing(tmp_path / "a"):
            raise error
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_flushing_is_told(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(PiopError, match="No space left on device; nothing was written"),
        replacing(tmp_path / "a"),
    ):
        pass


def test_places_that_cannot_be_written_are_refused_first(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    cases = {
        tmp_path / "none" / "a": "there is no such folder",
        tmp_path / "file" / "a": "is not a folder",
        tmp_path: "it is a folder; give a file name",
        Path("/dev/full"): "it is not a regular file",
    }
    for path, message in cases.items():
        with pytest.raises(DataError, match=message), replacing(path):
            pytest.fail("the block must not run")

    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)
    with (
        pytest.raises(
            DataError, match=r"cannot be written: Permission denied\. Give write permission"
        ),
        replacing(tmp_path / "a"),
    ):
        pytest.fail("the block must not run")


LIMITED = """
import resource, signal, sys, numpy as np
from types import SimpleNamespace as S
from piop.datasets import DatasetWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
problem = S(name="p", coordinates=(), angles=(), channels=("u",), unknowns=("u",), inputs=(),
            units={}, hash="h", spec=S(title="t"), to_yaml=lambda: "y")
try:
    with DatasetWriter.open(sys.argv[1], problem, 4, force=True) as writer:
        for _ in range(4):
            writer.append("u", ("x",), np.random.default_rng(0).normal(size=(1, 20_000)))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_real_write_beyond_the_limit_leaves_the_last_data_set_intact(tmp_path):
    (tmp_path / "d.nc").write_text("old")
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "d.nc")], capture_output=True, text=True
    )
    assert run.stdout.startswith("PiopError"), run.stdout + run.stderr
    assert "File too large" in run.stdout
    assert "Raise the limit on file sizes" in run.stdout
    assert (run.returncode, run.stderr) == (0, "")  # HDF5 neither crashed nor complained
    assert [p.name for p in tmp_path.iterdir()] == ["d.nc"]
    assert (tmp_path / "d.nc").read_text() == "old"
