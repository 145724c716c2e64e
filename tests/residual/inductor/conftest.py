"""A cache of its own for the compiler, and whether a process still runs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


def _runs(number: int) -> bool:
    """Whether a process is there, and no mere remainder of one."""
    try:
        os.kill(number, 0)
        state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture
def runs() -> Callable[[int], bool]:
    return _runs
