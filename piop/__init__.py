"""Operator surrogates of partial differential equations, trained on the equation itself.

    run = piop.Problem.from_file("burgers").fit(time="5m")
    u = run.predict({"u0": values})

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piop.datasets import Dataset, read_dataset, read_queries, read_sensors, write_dataset
    from piop.errors import (
        DataError,
        NotSupportedError,
        PiopError,
        SolverError,
        SpecError,
        TrainingError,
        UsageError,
    )
    from piop.fields import FunctionSamples
    from piop.generation import generate
    from piop.problem import Problem
    from piop.reference import solve_reference
    from piop.run import Run, resume

try:
    __version__ = _version("piop")
except PackageNotFoundError:  # used from a checkout that is not installed
    __version__ = "0+unknown"

_HOME = {
    "piop.datasets": ("Dataset", "read_dataset", "read_queries", "read_sensors", "write_dataset"),
    "piop.errors": (
        "DataError",
        "NotSupportedError",
        "PiopError",
        "SolverError",
        "SpecError",
        "TrainingError",
        "UsageError",
    ),
    "piop.fields": ("FunctionSamples",),
    "piop.generation": ("generate",),
    "piop.problem": ("Problem",),
    "piop.reference": ("solve_reference",),
    "piop.run": ("Run", "resume"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "DataError",
    "Dataset",
    "FunctionSamples",
    "NotSupportedError",
    "PiopError",
    "Problem",
    "Run",
    "SolverError",
    "SpecError",
    "TrainingError",
    "UsageError",
    "__version__",
    "generate",
    "read_dataset",
    "read_queries",
    "read_sensors",
    "resume",
    "solve_reference",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _MODULE:
        raise AttributeError(f"module 'piop' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return __all__
