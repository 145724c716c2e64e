"""``piop settings``: every setting of a training run, with its meaning, values and default."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import fields
from typing import Any, TextIO

import click

from piop.cli.completion import TOPIC
from piop.cli.console import common_options, example, print_json, styled
from piop.errors import did_you_mean, excerpt

COLUMNS = 120
INTRODUCTION = (
    "Every setting works as `--set key=value` on the command line, in the `solve:` block of a spec "
    "and in `problem.fit(settings={...})`. `piop settings` prints this list, `piop settings TOPIC` "
    "a part of it: a section, a setting, or a backbone, whose own settings are given the same way. "
    "A setting that would do nothing in a run is refused, with what it belongs to. Those marked "
    "*changeable* may be given to `piop resume` as well.",
    "This page is written by `piop settings --markdown`.",
)


@click.command(epilog=example("piop settings optimiser", "piop settings pit"))
@click.argument("topic", type=TOPIC, required=False)
@click.option("--markdown", is_flag=True, help="Print the page docs/settings.md.")
@common_options
def settings(topic: str | None, markdown: bool, as_json: bool) -> None:
    """List the settings of a training run.

    TOPIC is a section such as optimiser, a setting such as learning_rate, or a backbone. A setting
    is given by --set KEY=VALUE.
    """
    found = sections()
    if topic is not None:
        found = _of_topic(found, topic)
    if as_json:
        print_json({"settings": found})
    elif markdown:
        print(page(found), end="")
    else:
        print("\n".join(_lines(found, sys.stdout)))
        if topic is None:
            print(_other_topics())


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


def section_titles() -> dict[str, str]:
    """Return what the settings of each section are about, the first line of its config."""
    from piop.training.config import SECTIONS

    first = {name: (section.__doc__ or "").split("\n")[0] for name, section in SECTIONS.items()}
    return {n: f"{t[:1].lower()}{t[1:]}".split(";")[0].rstrip(".") for n, t in first.items()}


def _other_topics() -> str:
    """Say which further topics there are."""
    from piop.models.registry import all_backbones

    networks = ", ".join(all_backbones()[0])
    return f"\nSizes and choices of a network: piop settings NETWORK, one of {networks}"


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the page of settings for the documentation, its lines at most 120 columns long."""
    titles, lines = section_titles(), ["# Settings"]
    for paragraph in INTRODUCTION:
        lines += ["", *textwrap.wrap(paragraph, COLUMNS)]
    for name, entries in found.items():
        title = titles[name]
        lines += ["", f"## {name.capitalize()}", "", f"{title[0].upper()}{title[1:]}.", ""]
        for entry in entries:
            text = f"- **`{entry['name']}`** ({_values(entry, '`')}): {_meaning(entry)}"
            lines += textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _lines(found: dict[str, list[dict[str, Any]]], file: TextIO) -> list[str]:
    titles, lines = section_titles(), []
    for name, entries in found.items():
        head = styled(name, file, bold=True) + (f": {titles[name]}" if name in titles else ":")
        lines += ["", head] if lines else [head]
        for entry in entries:
            lines.append(f"  {styled(entry['name'], file, fg='cyan')} ({_values(entry, '')})")
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
    from piop.training.setting_declarations import attribute_meanings

    if topic in found:
        return {topic: found[topic]}
    for name, entries in found.items():
        if own := [entry for entry in entries if entry["name"] == topic]:
            return {name: own}
    backbones = all_backbones()[0]
    if topic not in backbones:
        names = [entry["name"] for entries in found.values() for entry in entries]
        topics = f"One of the topics {', '.join([*found, *backbones])}, or a setting."
        hint = did_you_mean(topic, [*found, *names, *backbones], 0.7) or topics
        raise click.UsageError(f"{excerpt(topic)} is not a topic of settings. {hint}")
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
