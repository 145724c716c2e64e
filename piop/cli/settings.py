"""``piop settings``: every setting of a training run, with its meaning, values and default."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import Any

import click

from piop.cli.console import common_options, print_json

COLUMNS = 120
INTRODUCTION = (
    "Every setting works as `--set key=value` on the command line, in the `solve:` block of a spec "
    "and in `problem.fit(settings={...})`. `piop settings` prints this list, `piop settings TOPIC` "
    "a part of it: a section, a setting, or a backbone, whose own settings are given the same way. "
    "A setting that would do nothing in a run is refused, with what it belongs to. Those marked "
    "*changeable* may be given to `piop resume` as well.",
    "This page is written by `piop settings --markdown`.",
)


@click.command()
@click.argument("topic", required=False)
@click.option("--markdown", is_flag=True, help="Print the page docs/settings.md.")
@common_options
def settings(topic: str | None, markdown: bool, as_json: bool) -> None:
    """List the settings of a training run.

    TOPIC is a section such as optimiser, a setting such as learning_rate, or a backbone. A setting
    is given by --set NAME=VALUE.
    """
    found = sections()
    if topic is not None:
        found = _of_topic(found, topic)
    if as_json:
        print_json({"settings": found})
    elif markdown:
        print(page(found), end="")
    else:
        print("\n".join(_lines(found)))


def sections() -> dict[str, list[dict[str, Any]]]:
    """Return the settings of each section, as plain values."""
    from piop.training.config import SECTIONS
    from piop.training.setting_declarations import settings_of

    return {
        name: [
            {
                "name": own.name,
                "default": own.default,
                "allowed": own.allowed,
                "meaning": own.meaning,
                "applies": [condition.text for condition in own.applies],
                "changeable": own.changeable,
            }
            for own in settings_of(section)
        ]
        for name, section in SECTIONS.items()
    }


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the page of settings for the documentation, its lines at most 120 columns long."""
    lines = ["# Settings"]
    for paragraph in INTRODUCTION:
        lines += ["", *textwrap.wrap(paragraph, COLUMNS)]
    for name, entries in found.items():
        lines += ["", f"## {name.capitalize()}", ""]
        for entry in entries:
            text = f"- **`{entry['name']}`** ({_values(entry, '`')}): {_meaning(entry)}"
            lines += textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = []
    for name, entries in found.items():
        lines += ["", f"{name}:"] if lines else [f"{name}:"]
        for entry in entries:
            lines.append(f"  {entry['name']} ({_values(entry, '')})")
            meaning = textwrap.wrap(_meaning(entry).replace("``", ""), 94)
            lines += [f"      {line}" for line in meaning]
    return lines


def _values(entry: dict[str, Any], mark: str) -> str:
    changeable = "; changeable" if entry["changeable"] else ""
    default = str(entry["default"]).lower() if entry["allowed"] == "true or false" else None
    return f"{entry['allowed']}; default {mark}{default or entry['default']}{mark}{changeable}"


def _meaning(entry: dict[str, Any]) -> str:
    applies = ", and to ".join(entry["applies"])
    return (entry["meaning"] + f" Applies to {applies}." * bool(applies)).replace("``", "`")


def _of_topic(
    found: dict[str, list[dict[str, Any]]], topic: str
) -> dict[str, list[dict[str, Any]]]:
    """Keep a section or a setting, or list the settings of a backbone.

    Raises:
        UsageError: If the topic is none of these.
    """
    from piop.models.registry import all_backbones
    from piop.training.setting_declarations import attribute_meanings, unknown_key

    if topic in found:
        return {topic: found[topic]}
    for name, entries in found.items():
        if own := [entry for entry in entries if entry["name"] == topic]:
            return {name: own}
    backbones = all_backbones()[0]
    if topic not in backbones:
        names = [entry["name"] for entries in found.values() for entry in entries]
        raise click.UsageError(unknown_key(topic, {*found, *names, *backbones}))
    config = next(iter(backbones[topic].values())).config
    meanings = attribute_meanings(type(config))
    return {
        topic: [
            {
                "name": f.name,
                "default": getattr(config, f.name),
                "allowed": type(getattr(config, f.name)).__name__,
                "meaning": meanings.get(f.name, ""),
                "applies": [],
                "changeable": False,
            }
            for f in fields(config)
        ]
    }
