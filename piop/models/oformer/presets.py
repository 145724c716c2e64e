"""OFormer: the networks of the paper's benchmarks, by its tables and by its code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piop.models.core.base import (
    AxisSignature,
    Backbone,
    InputSignature,
    Preset,
    Presets,
    Signature,
    unit_axes,
)
from piop.models.oformer.layers import OFormerConfig
from piop.models.oformer.network import OFormer, OFormerRollout
from piop.models.oformer.published import (
    BurgersOFormer,
    DarcyOFormer,
    NavierStokesOFormer,
    PublishedOFormerConfig,
)
from piop.models.oformer.published_meshes import AirfoilOFormer, StaticsOFormer

SQUARE = unit_axes("xy")
TORUS = unit_axes("xy", periodic=True)

BURGERS = Signature((*unit_axes("t"), TORUS[0]), (InputSignature("u0", ("x",)),), 1, 0, ("x",))
DARCY = Signature(SQUARE, (InputSignature("a", ("x", "y"), smooth=False),))
NAVIER_STOKES = Signature(
    (AxisSignature("t", 10.0, 30.0), *TORUS),
    (InputSignature("history", ("x", "y"), channels=10),),
    1,
    0,
)
STATICS = Signature(
    SQUARE,
    (
        InputSignature("features", ("x", "y"), channels=8),
        InputSignature("wall", ("x", "y"), smooth=False),
    ),
    3,
)
"""Eleven features of a node, among them its two coordinates and the label of the boundary."""
AIRFOIL = Signature(
    (AxisSignature("t", 0.576, 4.8), *SQUARE),
    (
        InputSignature("history", ("x", "y"), channels=16),
        InputSignature("kind", ("x", "y"), channels=3, smooth=False),
    ),
    4,
    0,
)
"""Four frames of two velocities, density and pressure; three kinds of node, one column each."""

SMALL = {"width": 24, "latent": 24, "blocks": 2, "cross": 2}

GRIDS = "Li, Meidani & Barati Farimani 2023, tables 5 to 7"
MESHES = "Li, Meidani & Barati Farimani 2023, tables 8 to 10"

SIDE = 211
"""Points along an axis of the Darcy grid: λ, and the scale of the first layer in the code."""

DARCY_CODE = PublishedOFormerConfig(
    latent=256,
    blocks=6,
    heads=4,
    cross=4,
    rates=(1.0 * SIDE * SIDE, 1.0 * SIDE * (SIDE // 4), 1.0 * SIDE),
    cross_rate=16.0 * SIDE,
    sigma=0.5,
)
NAVIER_STOKES_CODE = PublishedOFormerConfig(
    latent=192,
    blocks=5,
    cross=4,
    rates=(32 * 64.0, 16 * 64.0, 8 * 64.0, 8 * 64.0, 64.0),
    cross_rate=16 * 64.0,
    sigma=8.0,
    steps=20,
)
ELECTROSTATICS = PublishedOFormerConfig(
    width=64, latent=64, blocks=2, cross=4, rates=(50 * 50.0, 12 * 50.0), cross_rate=50.0
)
AIRFOIL_CODE = PublishedOFormerConfig(
    width=128,
    latent=128,
    cross=4,
    rates=(32 * 200.0, 16 * 200.0, 16 * 200.0, 200.0),
    cross_rate=32 * 200.0,
    sigma=2.0,
    steps=22,
)
AIRFOIL_RATES = (32 * 200.0, 16 * 200.0, 8 * 200.0, 8 * 200.0, 200.0)


def published(
    build: type[Backbone],
    signature: Signature,
    source: str,
    config: PublishedOFormerConfig,
    **changes: Any,
) -> Preset:
    """Make a preset by changes of a config; a rollout is tested with two steps."""
    small = {**SMALL, "steps": 2} if build.field.rollout else SMALL
    return Preset(build, replace(config, **changes), signature, source, small)


burgers = published(
    BurgersOFormer,
    BURGERS,
    f"{GRIDS}, 1D Burgers; uniform_grids/train_burgers.py",
    PublishedOFormerConfig(),
)
electrostatics = published(
    StaticsOFormer, STATICS, f"{MESHES}, 2D Electrostatics; BVP/train_electro.py", ELECTROSTATICS
)
rollout = Preset(OFormerRollout, OFormerConfig(steps=20), small={"steps": 2})
"""Also under its old name ``march``."""

PRESETS: Presets = {
    "default": Preset(OFormer, OFormerConfig()),
    "rollout": rollout,
    "march": rollout,
    "paper_burgers": burgers,
    "code_burgers": burgers,
    "paper_darcy": published(DarcyOFormer, DARCY, f"{GRIDS}, 2D Darcy flow", DARCY_CODE, blocks=4),
    "code_darcy": published(DarcyOFormer, DARCY, "uniform_grids/train_darcy.py", DARCY_CODE),
    "paper_navier_stokes": published(
        NavierStokesOFormer,
        NAVIER_STOKES,
        f"{GRIDS}, 2D Navier-Stokes",
        NAVIER_STOKES_CODE,
        width=128,
    ),
    "code_navier_stokes": published(
        NavierStokesOFormer,
        NAVIER_STOKES,
        "uniform_grids/train_navier_stokes.py",
        NAVIER_STOKES_CODE,
    ),
    "paper_electrostatics": electrostatics,
    "code_electrostatics": electrostatics,
    "paper_magnetostatics": published(
        StaticsOFormer, STATICS, f"{MESHES}, 2D Magnetostatics", ELECTROSTATICS, width=96, latent=96
    ),
    "code_magnetostatics": published(
        StaticsOFormer, STATICS, "BVP/train_magneto.py", ELECTROSTATICS, latent=96
    ),
    "paper_airfoil": published(
        AirfoilOFormer,
        AIRFOIL,
        f"{MESHES}, 2D Airfoil",
        AIRFOIL_CODE,
        blocks=5,
        rates=AIRFOIL_RATES,
    ),
    "code_airfoil": published(AirfoilOFormer, AIRFOIL, "airfoil/train_airfoil.py", AIRFOIL_CODE),
}
