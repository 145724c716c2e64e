"""The style of all figures: labels with units, colours safe for colour-blind readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

# Okabe & Ito, Color Universal Design (2008): black, then in the order of use
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#707070"
SMALL, NORMAL = 8, 9
DPI, FINE_DPI = 150, 300  # of pictures, and of fields within a vector graphic
VECTOR_TEXT: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}
"""Settings of matplotlib by which text stays text, as publishers ask."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LEAST_SIGN = 0.02  # part of the range that values of the other sign have to reach to count


def label(name: str, units: Mapping[str, str]) -> str:
    """Return a name with its unit in brackets, where it has one."""
    unit = units.get(name)
    return f"{name} [{unit}]" if unit else name


def figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, outside of pyplot's global state."""
    return Figure(figsize=(width, height), layout="constrained")


def set_labels(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Set title, axis labels and thin ticks of a panel."""
    axes.set_title(title, fontsize=NORMAL, loc="left")
    axes.set_xlabel(x, fontsize=SMALL)
    axes.set_ylabel(y, fontsize=SMALL)
    axes.tick_params(labelsize=SMALL - 1, width=0.6, length=3)
    for side in axes.spines.values():
        side.set_linewidth(0.6)


def logarithmic(axes: Axes, x: bool = False, y: bool = False) -> None:
    """Make axes logarithmic, with plain numbers where they span less than two decades."""
    for axis, wanted, limits in ((axes.xaxis, x, axes.get_xlim), (axes.yaxis, y, axes.get_ylim)):
        if not wanted:
            continue
        (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
        low, high = limits()
        if low > 0 and high / low < 100:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())


def style_lines(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Label a line plot as a panel, remove its upper and right frame and add a light grid."""
    set_labels(axes, title, x, y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.5)
    axes.set_axisbelow(True)


def legend(axes: Axes, *, beside: bool = False) -> None:
    """Add a legend without a box; ``beside`` the panel where lines fill it."""
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {}
    axes.legend(fontsize=SMALL - 1, frameon=False, handlelength=1.4, **place)


def field_colours(*values: np.ndarray) -> dict[str, Any]:
    """Return one colour scale for several fields: diverging about zero if they have both signs."""
    low = min(float(np.nanmin(v)) for v in values)
    high = max(float(np.nanmax(v)) for v in values)
    if min(-low, high) > LEAST_SIGN * max(-low, high):
        size = max(-low, high)
        return {"cmap": "RdBu_r", "vmin": -size, "vmax": size}
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def error_colours(values: np.ndarray) -> dict[str, Any]:
    """Return a colour scale from zero for absolute errors."""
    return {"cmap": "magma", "vmin": 0.0, "vmax": float(np.nanmax(values)) or 1.0}


def signed_colours(values: np.ndarray) -> dict[str, Any]:
    """Return a colour scale that is symmetric about zero, for errors with their sign."""
    size = float(np.nanmax(np.abs(values))) or 1.0
    return {"cmap": "RdBu_r", "vmin": -size, "vmax": size}


def letter(number: int) -> str:
    """Return the letter of a panel, ``(a)`` for the first.

    Example:
        >>> letter(1), letter(27)
        ('(b)', '(ab)')
    """
    first = LETTERS[number // len(LETTERS) - 1] if number >= len(LETTERS) else ""
    return f"({first}{LETTERS[number % len(LETTERS)]})"


def colour_bar(axes: Axes, mesh: ScalarMappable, name: str) -> None:
    """Add a thin colour bar with a label."""
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, aspect=25)
    bar.set_label(name, fontsize=SMALL - 1)
    bar.ax.tick_params(labelsize=SMALL - 2, width=0.6, length=2)
    bar.outline.set(linewidth=0.6)
