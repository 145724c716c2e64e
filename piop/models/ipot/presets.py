"""IPOT: the columns of the paper's Table 5, from its text and from its code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piop.models.core.base import AxisSignature, InputSignature, Preset, Presets, Signature
from piop.models.ipot.layers import IPOTConfig
from piop.models.ipot.network import IPOT, IPOTRollout, IPOTRolloutConfig
from piop.models.ipot.published import (
    PaperIPOT,
    PaperIPOTConfig,
    PaperIPOTRollout,
    PaperIPOTRolloutConfig,
)

PAPER = "Lee & Oh 2024, Table 5, "
CODE = "github.com/7tl7qns7ch/IPOT, revision 18c1778, sizes of Table 5, "


def unit(names: str, time: float | None = None) -> tuple[AxisSignature, ...]:
    """Return coordinates as in the code: from 0 to 1 and not periodic, the time first."""
    axes = tuple(AxisSignature(name, 0.0, 1.0) for name in names.split())
    return axes if time is None else (AxisSignature("t", 0.0, time), *axes)


def steady(names: str, channels: int = 1, out: int = 1) -> Signature:
    """Signature of one function of all coordinates, mapped to another."""
    return Signature(unit(names), (InputSignature("a", tuple(names.split()), channels),), out)


def trajectory(names: str, steps: int, channels: int, out: int = 1) -> Signature:
    """Signature of a function of space at ``channels`` times, mapped to later times."""
    inputs = (InputSignature("a", tuple(names.split()), channels),)
    return Signature(unit(names, float(steps)), inputs, out, 0)


def column(name: str, build: type[Any], config: Any, signature: Signature) -> dict[str, Preset]:
    """Make the column's two presets."""
    published = replace(config, as_published=True)
    small = {"width": 16, "points": 12, "bands": 4} | (
        {"steps": 3} if "steps" in vars(config) else {}
    )
    return {
        f"paper_{name}": Preset(build, config, signature, PAPER + name, small),
        f"code_{name}": Preset(build, published, signature, CODE + name, small),
    }


ROLLOUT = Preset(IPOTRollout, IPOTRolloutConfig(), small={"steps": 2})
"""Also under its old name ``march``."""

PRESETS: Presets = {
    "default": Preset(IPOT, IPOTConfig()),
    "rollout": ROLLOUT,
    "march": ROLLOUT,
    # Keys of the text's 8 heads: 64 together, the code's own rule (latent channels / heads).
    **column(
        "burgers",
        PaperIPOT,
        PaperIPOTConfig(depth=1, cross_heads=8, bands=64, resolutions=(64,)),
        steady("x"),
    ),
    **column("darcy", PaperIPOT, PaperIPOTConfig(), steady("x y")),
    # Indices of the mesh are the coordinates, its two positions the input.
    **column(
        "airfoil",
        PaperIPOT,
        PaperIPOTConfig(points=128, depth=2, heads=4, bands=8, resolutions=(16,)),
        steady("i j", 2),
    ),
    # x, y, angle and radius are encoded; 42 numbers of the shape stand beside them, where the
    # table lists one value.
    **column(
        "elasticity",
        PaperIPOT,
        PaperIPOTConfig(points=512, heads=4, bands=16, resolutions=(16,)),
        steady("x y angle radius", 42),
    ),
    **column(
        "plasticity",
        PaperIPOT,
        PaperIPOTConfig(depth=2, heads=2, bands=3, resolutions=(12,)),
        steady("x y t", 1, 4),
    ),
    # Ten snapshots enter as channels, forty follow.
    **column(
        "navier_stokes",
        PaperIPOTRollout,
        PaperIPOTRolloutConfig(128, 512, 2, 4, bands=12, resolutions=(20,), steps=40),
        trajectory("x y", 40, 10),
    ),
    # On the sphere by three coordinates; the code has left this problem out.
    **column(
        "shallow_water",
        PaperIPOTRollout,
        PaperIPOTRolloutConfig(128, 256, 2, 8, 2, 128, 20, (32,), steps=19),
        trajectory("x y z", 19, 2, 2),
    ),
    **column(
        "era5",
        PaperIPOTRollout,
        PaperIPOTRolloutConfig(128, 512, 4, 8, bands=64, resolutions=(64, 128), steps=7),
        trajectory("latitude longitude", 7, 7),
    ),
}
