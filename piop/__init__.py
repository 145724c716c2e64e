"""Operator surrogates of partial differential equations, trained on the equation itself.

    run = piop.Problem.from_file("burgers").fit(time="5m")
    u = run.predict({"u0": values})

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from piop.errors import (
    DataError,
    NotSupportedError,
    PiopError,
    SolverError,
    SpecError,
    TrainingError,
    UsageError,
)

if TYPE_CHECKING:
    from piop.datasets import (
        Dataset,
        Queries,
        read_dataset,
        read_queries,
        read_sensors,
        write_dataset,
        write_prediction,
    )
    from piop.fields import FunctionSamples
    from piop.generation import generate
    from piop.models import Backbone
    from piop.problem import Problem
    from piop.reference import solve_reference
    from piop.run import Run, resume
    from piop.training.loop.callbacks import Callback, TrainingEvent

    __version__: str

_MODULE_OF = {
    "Backbone": "piop.models",
    "Callback": "piop.training.loop.callbacks",
    "Dataset": "piop.datasets",
    "FunctionSamples": "piop.fields",
    "Problem": "piop.problem",
    "Queries": "piop.datasets",
    "Run": "piop.run",
    "TrainingEvent": "piop.training.loop.callbacks",
    "generate": "piop.generation",
    "read_dataset": "piop.datasets",
    "read_queries": "piop.datasets",
    "read_sensors": "piop.datasets",
    "resume": "piop.run",
    "solve_reference": "piop.reference",
    "write_dataset": "piop.datasets",
    "write_prediction": "piop.datasets",
}

__all__ = [
    "Backbone",
    "Callback",
    "DataError",
    "Dataset",
    "FunctionSamples",
    "NotSupportedError",
    "PiopError",
    "Problem",
    "Queries",
    "Run",
    "SolverError",
    "SpecError",
    "TrainingError",
    "TrainingEvent",
    "UsageError",
    "__version__",
    "generate",
    "read_dataset",
    "read_queries",
    "read_sensors",
    "resume",
    "solve_reference",
    "write_dataset",
    "write_prediction",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "__version__":
        return _version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'piop' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("piop")
    except PackageNotFoundError:  # used from a checkout that is not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return __all__
