"""Burgers' equation with the default PIT: streams against nested reverse mode and supervision."""

from __future__ import annotations

import yaml

from piop.problem import Problem
from steps.case import build_case, compare
from steps.timing import Options

CASES = ((64, 128, True), (128, 64, True), (64, 128, False))
"""(sensors, width, whether attention goes to the sensors rather than to their fit)."""


def measure(options: Options) -> dict[str, float]:
    """Give the ratios of every case, named by sensors and width."""
    figures = {}
    for sensors, width, attend in CASES:
        case = build_case(burgers(sensors), width, options.device, attend=attend)
        label = f"pit_burgers_{sensors}x{width}" + ("" if attend else "_fit")
        found = compare(case, options, nested_compiled=attend)
        figures |= {f"{label}/{k}": v for k, v in found.items()}
    return figures


def burgers(sensors: int) -> Problem:
    """The shipped problem with another number of sensors."""
    words = yaml.safe_load(Problem.from_file("burgers").to_yaml())
    words["sensors"] = {"u0": {"count": sensors, "place": "uniform"}}
    return Problem.from_yaml(yaml.safe_dump(words, sort_keys=False))
