"""Every setting of a run, versions and seeds, and the command that reproduces it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from piop.errors import UsageError
from piop.problem import Problem
from piop.report.markup import Html, element, joined, table
from piop.run.configuration import configure
from piop.training.choices import settings_of_form
from piop.training.config import SETTINGS, BudgetConfig, TrainingConfig, apply_settings

OPTIONS = {"device", "precision", "compile", "threads", "seed"}
"""Settings of the machine that are options of ``piop solve``."""


def settings_section(
    problem: Problem, config: TrainingConfig, record: Mapping[str, Any], spec: str
) -> Html:
    """List how a run was made.

    Args:
        problem: The problem.
        config: The configuration of its training.
        record: The content of ``config.json``.
        spec: The text of ``spec.yaml``.
    """
    statistics = record.get("statistics") or {}
    training: dict[str, Any] = config.to_json() | {"statistics": statistics}
    lattice, potential = statistics.get("lattice") or (), statistics.get("potential", False)
    data = record.get("data")
    usual = settings_of_form(config, lattice, potential, data is not None)
    again = command(problem, config, data, record.get("start"), usual)
    parts = []
    for name, values in training.items():
        rows = values if isinstance(values, dict) else {name: values}
        shown = [(key, _value(value)) for key, value in rows.items()]
        if shown:
            title = name.replace("_", " ")
            block = element("details", element("summary", title), table(shown))
            parts.append(block if isinstance(values, dict) else table(shown))
    made = {"piop run folder format": record.get("format"), "made": record.get("created")}
    made |= {"hash of the spec": record.get("hash"), "seed": config.machine.seed}
    made |= record.get("versions") or {}
    made |= {f"data: {k}": v for k, v in (data or {}).items() if k != "inputs"}
    rows = [(key, _value(value)) for key, value in made.items()]
    return joined(
        [
            element("h3", "The command that makes this run again, in its folder"),
            element("pre", again),
            _caution(config),
            element("h3", "Versions and seeds"),
            table(rows),
            element("h3", "Settings"),
            *parts,
            element("h3", "The spec"),
            element("pre", spec),
        ]
    )


def command(
    problem: Problem,
    config: TrainingConfig,
    data: Mapping[str, Any] | None,
    start: str | None = None,
    of_form: Mapping[str, Any] | None = None,
) -> str:
    """Return the command that makes a run again, with every setting that is not the usual one.

    Args:
        problem: The problem.
        config: The configuration of its training.
        data: The record of its data; None without.
        start: The run whose weights it started from; None for fresh ones.
        of_form: Settings that go with the form of its equations, as of :func:`settings_of_form`.
    """
    machine, budget = config.machine, config.budget
    words = ["piop", "solve", "spec.yaml", "--backbone", config.backbone]
    length = (
        ["--steps", str(budget.steps)] if budget.time is None else ["--time", f"{budget.time:g}s"]
    )
    words += [*length, "--seed", str(machine.seed), "--precision", machine.precision]
    words += ["--device", machine.device.split(":")[0]]
    words += [] if machine.threads is None else ["--threads", str(machine.threads)]
    if machine.compile is not None:
        words.append("--compile" if machine.compile else "--no-compile")
    if data is not None:
        words += ["--data", str(data.get("path") or "FILE")]
    words += [] if config.physics else ["--no-physics"]
    words += [] if start is None else ["--from", start]
    for key, value in _changed(problem, config, of_form or {}).items():
        words += ["--set", f"{key}={_setting(value)}"]
    return shlex.join(words)


def _changed(
    problem: Problem, config: TrainingConfig, of_form: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that differ from those of the spec and of piop."""
    start = TrainingConfig(
        BudgetConfig(config.budget.steps, config.budget.time),
        machine=config.machine,
        physics=config.physics,
    )
    given = config.network if config.of_class else config.backbone
    try:
        usual = configure(problem, start, given, None)
    except UsageError:  # a network of another version
        usual = start
    not_given = {k: v for k, v in of_form.items() if k not in problem.solve}
    usual = apply_settings(usual, not_given, {})
    own, before = config.sections, usual.sections
    found = {
        key: getattr(own[section], key)
        for key, (section, _) in SETTINGS.items()
        if key not in OPTIONS and getattr(own[section], key) != getattr(before[section], key)
    }
    sizes = usual.backbone_settings
    return found | {k: v for k, v in config.backbone_settings.items() if sizes.get(k) != v}


def _caution(config: TrainingConfig) -> Html:
    if config.of_class:
        return element("p", "Its network was given in Python, and must be given again.", css="soft")
    if config.budget.time is None:
        return Html("")
    return element(
        "p",
        "Its budget is a time, so another machine takes another number of steps; with --steps the "
        "numbers are the same.",
        css="soft",
    )


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _value(value: Any) -> str:
    return "–" if value is None else _setting(value)
