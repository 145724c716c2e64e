"""Problems without the recipe of their spec, so that benchmarks compare recipes by themselves."""

from __future__ import annotations

import yaml

from piop.problem import Problem


def plain(name: str) -> Problem:
    """Read one of piop's problems, or a file, and leave its ``solve:`` out."""
    problem = Problem.from_file(name)
    words = yaml.safe_load(problem.to_yaml())
    words.pop("solve", None)
    return Problem.from_yaml(yaml.safe_dump(words, sort_keys=False))
