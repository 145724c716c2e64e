"""``piop backbones``: the networks and their presets, and what each can be trained on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from piop.cli.console import aligned, common_options, example, is_terminal, print_json, say

if TYPE_CHECKING:
    from piop.training.backbone_catalogue import Entry

HEADINGS = ("backbone", "preset", "parameters", "evaluated", "times", "physics", "data", "source")


@click.command(epilog=example("piop backbones --json"))
@common_options
def backbones(as_json: bool) -> None:
    """List the backbones and their presets.

    Parameters are counted for the problem that a preset was published for, or for Burgers'
    equation. Under physics and data stands how many of the problems that come with piop it can
    learn that way; the reasons follow. A preset is chosen by --backbone NAME --set preset=PRESET.
    """
    from piop.training.backbone_catalogue import catalogue

    entries, faults = catalogue()
    if as_json:
        print_json({"backbones": nested(entries), "faults": faults})
        return
    rows = table_rows(entries)
    if is_terminal(sys.stdout):
        _show(rows)
    else:
        print(plain_table(rows))
    print("\n".join(reason_lines(entries)))
    for fault in faults:
        say(f"piop: {fault}")


def nested(entries: Sequence[Entry]) -> dict[str, Any]:
    """Nest entries as backbone → preset → the rest."""
    found: dict[str, Any] = {}
    for entry in entries:
        body = {
            "network": entry.network.__name__,
            "parameters": entry.parameters,
            "field": entry.network.field.name,
            "times": "end" if entry.network.end_only else "any",
            "source": entry.source,
            "physics": entry.physics,
            "data": entry.data,
        }
        found.setdefault(entry.backbone, {})[entry.preset] = body
    return found


def table_rows(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Make a row for each preset; the names of one network share a row."""
    rows: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        name = entry.same_as or entry.preset
        column = name.removeprefix("paper").removeprefix("code")
        alike = (entry.backbone, column, entry.network, entry.parameters, entry.source)
        rows.setdefault(alike, []).append(entry)
    return [
        (
            first.backbone,
            ", ".join(entry.preset for entry in same),
            f"{first.parameters:,}",
            first.network.field.label,
            "the end" if first.network.end_only else "any",
            _fraction(first.physics),
            _fraction(first.data),
            first.source,
        )
        for same in rows.values()
        for first in same[:1]
    ]


def _fraction(obstacles: Mapping[str, str | None]) -> str:
    return f"{list(obstacles.values()).count(None)} of {len(obstacles)}"


def plain_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows under headings."""
    return "\n".join(aligned([HEADINGS, *rows], right=[HEADINGS.index("parameters")]))


def reason_lines(entries: Sequence[Entry]) -> list[str]:
    """Say why problems cannot be learned, the presets of one reason together."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for entry in entries:
        for kind, obstacles in (("physics", entry.physics), ("data", entry.data)):
            for reason in dict.fromkeys(r for r in obstacles.values() if r is not None):
                specs = [spec for spec, other in obstacles.items() if other == reason]
                which = "any problem" if len(specs) == len(obstacles) else ", ".join(specs)
                names = found.setdefault((kind, which, reason), {})
                names.setdefault(entry.backbone, []).append(entry.preset)
    lines = []
    for (kind, which, reason), names in found.items():
        lines += ["", f"Not from {kind}, {which}: {reason}"]
        lines += [f"  {backbone}: {', '.join(presets)}" for backbone, presets in names.items()]
    return lines


def _show(rows: Sequence[tuple[str, ...]]) -> None:
    """Draw the table on a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in HEADINGS:
        table.add_column(
            heading,
            justify="right" if heading == "parameters" else "left",
            no_wrap=heading not in ("preset", "source"),
        )
    previous = ""
    for name, *cells in rows:
        table.add_row(name if name != previous else "", *cells)
        previous = name
    Console().print(table)
