"""Benchmarks are scripts of a folder, not of the package."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module
