"""Pieces of the report as HTML; every text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML already, and not escaped again."""

    __slots__ = ()


def text(value: object) -> str:
    """Return a value as HTML, escaped unless it is :class:`Html`.

    Example:
        >>> text("a < b")
        'a &lt; b'
    """
    return value if isinstance(value, Html) else escape(str(value))


def element(tag: str, *children: object, css: str = "") -> Html:
    """Return an element with children.

    Example:
        >>> element("p", "a < b", css="soft")
        '<p class="soft">a &lt; b</p>'
    """
    given = f' class="{css}"' if css else ""
    return Html(f"<{tag}{given}>{''.join(map(text, children))}</{tag}>")


def joined(parts: Iterable[object]) -> Html:
    """Return pieces one after the other."""
    return Html("\n".join(map(text, parts)))


def table(rows: Sequence[Sequence[object]], head: Sequence[object] = ()) -> Html:
    """Return a table; without rows nothing."""
    if not rows:
        return Html("")
    top = element("tr", *(element("th", cell) for cell in head)) if head else ""
    body = [
        element("tr", element("th", row[0]), *(element("td", cell) for cell in row[1:]))
        for row in rows
    ]
    return element("div", element("table", top, *body), css="scroll")


def section(name: str, title: str, *children: object) -> Html:
    """Return a section of the page, which its navigation can lead to."""
    body = joined([element("h2", title), *children])
    return Html(f'<section id="{escape(name)}">{body}</section>')


def card(name: str, value: object, *meaning: object, css: str = "") -> Html:
    """Return a number with its name and what it means."""
    return element(
        "div",
        element("div", name, css="name"),
        element("div", value, css=f"value {css}".strip()),
        *(element("p", line) for line in meaning if line),
        css="card",
    )


def figure(plot: str, title: str, meaning: str) -> Html:
    """Return the place of a plot that the script draws, with its caption."""
    caption = element("figcaption", element("b", title), " ", meaning)
    return Html(f'<figure>{caption}<div data-plot="{escape(plot)}"></div></figure>')


def panels(*figures: object, css: str = "panels") -> Html:
    """Return plots beside each other; without any nothing."""
    shown = [part for part in figures if part]
    return element("div", *shown, css=css) if shown else Html("")
