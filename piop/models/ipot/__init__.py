"""IPOT: the columns of the paper's Table 5, from its text and from its code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piop.models.core.base import (
    AxisSignature,
    InputSignature,
    Preset,
    Presets,
    Signature,
    unit_axes,
)
from piop.models.ipot.network import IPOT, IPOTConfig, IPOTRollout, IPOTRolloutConfig
from piop.models.ipot.published import (
    PaperIPOT,
    PaperIPOTConfig,
    PaperIPOTRollout,
    PaperIPOTRolloutConfig,
)

PAPER = "Lee & Oh 2024, Table 5, "
CODE = "github.com/7tl7qns7ch/IPOT, revision 18c1778, sizes of Table 5, "


def steady(names: str, channels: int = 1, out: int = 1) -> Signature:
    """Signature of one function of all coordinates, mapped to another."""
    of = tuple(names.split())
    return Signature(unit_axes(of), (InputSignature("a", of, channels),), out)


def trajectory(names: str, steps: int, channels: int, out: int = 1) -> Signature:
    """Signature of a function of space at ``channels`` times, mapped to later times."""
    space = steady(names, channels, out)
    axes = (AxisSignature("t", 0.0, float(steps)), *space.coordinates)
    return replace(space, coordinates=axes, time=0)


def column(name: str, signature: Signature, *sizes: Any) -> Presets:
    """Make the two presets of a column of the table; one with a time axis is a rollout.

    Args:
        name: That of the column.
        signature: The benchmark's shapes; a time axis has the length 1 for each step.
        *sizes: The fields of :class:`PaperIPOTConfig` in their order, those of the table.
    """
    small: dict[str, Any] = {"width": 16, "points": 12, "bands": 4}
    by_text = Preset(PaperIPOT, PaperIPOTConfig(*sizes), signature, PAPER + name, small)
    if signature.time is not None:
        steps = round(signature.coordinates[signature.time].high)
        config = PaperIPOTRolloutConfig(*sizes, steps=steps)
        by_text = replace(
            by_text, build=PaperIPOTRollout, config=config, small=small | {"steps": 3}
        )
    published = replace(by_text.config, as_published=True)
    by_code = replace(by_text, config=published, source=CODE + name)
    return {f"paper_{name}": by_text, f"code_{name}": by_code}


ROLLOUT = Preset(IPOTRollout, IPOTRolloutConfig(), small={"steps": 2})
"""Also under its old name ``march``."""

PRESETS: Presets = {
    "default": Preset(IPOT, IPOTConfig()),
    "rollout": ROLLOUT,
    "march": ROLLOUT,
    # Keys of the text's 8 heads: 64 together, the code's own rule (latent channels / heads).
    **column("burgers", steady("x"), 64, 256, 1, 8, 8, 64, 64, (64,)),
    **column("darcy", steady("x y"), 64, 256, 4, 8, 1, 64, 32, (32,)),
    # Indices of the mesh are the coordinates, its two positions the input.
    **column("airfoil", steady("i j", 2), 64, 128, 2, 4, 1, 64, 8, (16,)),
    # x, y, angle and radius are encoded; 42 numbers of the shape stand beside them, where the
    # table lists one value.
    **column("elasticity", steady("x y angle radius", 42), 64, 512, 4, 4, 1, 64, 16, (16,)),
    **column("plasticity", steady("x y t", 1, 4), 64, 256, 2, 2, 1, 64, 3, (12,)),
    # Ten snapshots enter as channels, forty follow.
    **column("navier_stokes", trajectory("x y", 40, 10), 128, 512, 2, 4, 1, 64, 12, (20,)),
    # On the sphere by three coordinates; the code has left this problem out.
    **column("shallow_water", trajectory("x y z", 19, 2, 2), 128, 256, 2, 8, 2, 128, 20, (32,)),
    **column("era5", trajectory("latitude longitude", 7, 7), 128, 512, 4, 8, 1, 64, 64, (64, 128)),
}
"""Rows of sizes: width, points, depth, heads, cross heads, cross size, bands, resolutions."""
