"""Problems of piop with other words in their specs."""

from __future__ import annotations

from typing import Any

import yaml

from piop.problem import Problem


def reworded(name: str, **words: Any) -> Problem:
    """Read one of piop's problems, or a file, with other words; None takes a key out."""
    problem = Problem.from_file(name)
    if not words:
        return problem
    spec = {**yaml.safe_load(problem.to_yaml()), **words}
    kept = {key: value for key, value in spec.items() if value is not None}
    return Problem.from_yaml(yaml.safe_dump(kept, sort_keys=False))


def plain(name: str) -> Problem:
    """Leave the recipe of a spec out, so that recipes are compared by themselves."""
    return reworded(name, solve=None)
