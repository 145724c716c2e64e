"""OFormer: the networks of the paper's benchmarks, by its tables and by its code."""

from __future__ import annotations

from dataclasses import replace

from piop.models.core.base import AxisSignature, InputSignature, Preset, Presets, Signature
from piop.models.oformer.layers import OFormerConfig
from piop.models.oformer.network import OFormer, OFormerRollout
from piop.models.oformer.published import (
    BurgersOFormer,
    DarcyOFormer,
    NavierStokesOFormer,
    PublishedOFormerConfig,
)
from piop.models.oformer.published_meshes import AirfoilOFormer, StaticsOFormer

X, Y = AxisSignature("x", 0.0, 1.0), AxisSignature("y", 0.0, 1.0)
ROUND_X, ROUND_Y = AxisSignature("x", 0.0, 1.0, True), AxisSignature("y", 0.0, 1.0, True)

BURGERS = Signature(
    (AxisSignature("t", 0.0, 1.0), ROUND_X), (InputSignature("u0", ("x",)),), 1, 0, ("x",)
)
DARCY = Signature((X, Y), (InputSignature("a", ("x", "y"), smooth=False),))
NAVIER_STOKES = Signature(
    (AxisSignature("t", 10.0, 30.0), ROUND_X, ROUND_Y),
    (InputSignature("history", ("x", "y"), channels=10),),
    1,
    0,
)
STATICS = Signature(
    (X, Y),
    (
        InputSignature("features", ("x", "y"), channels=8),
        InputSignature("wall", ("x", "y"), smooth=False),
    ),
    3,
)
"""Eleven features of a node, among them its two coordinates and the label of the boundary."""
AIRFOIL = Signature(
    (AxisSignature("t", 0.576, 4.8), X, Y),
    (
        InputSignature("history", ("x", "y"), channels=16),
        InputSignature("kind", ("x", "y"), channels=3, smooth=False),
    ),
    4,
    0,
)
"""Four frames of two velocities, density and pressure; three kinds of node, one column each."""

SMALL = {"width": 24, "latent": 24, "blocks": 2, "cross": 2}
SHORT = {**SMALL, "steps": 2}

SIDE = 211
"""Points along an axis of the Darcy grid: λ, and the scale of the first layer in the code."""

burgers = Preset(
    BurgersOFormer,
    PublishedOFormerConfig(),
    BURGERS,
    "Li, Meidani & Barati Farimani 2023, tables 5 to 7, 1D Burgers; uniform_grids/train_burgers.py",
    SMALL,
)

code_darcy = Preset(
    DarcyOFormer,
    PublishedOFormerConfig(
        latent=256,
        blocks=6,
        heads=4,
        cross=4,
        rates=(1.0 * SIDE * SIDE, 1.0 * SIDE * (SIDE // 4), 1.0 * SIDE),
        cross_rate=16.0 * SIDE,
        sigma=0.5,
    ),
    DARCY,
    "uniform_grids/train_darcy.py",
    SMALL,
)
paper_darcy = Preset(
    DarcyOFormer,
    replace(code_darcy.config, blocks=4),
    DARCY,
    "Li, Meidani & Barati Farimani 2023, tables 5 to 7, 2D Darcy flow",
    SMALL,
)

code_ns = Preset(
    NavierStokesOFormer,
    PublishedOFormerConfig(
        latent=192,
        blocks=5,
        cross=4,
        rates=(32 * 64.0, 16 * 64.0, 8 * 64.0, 8 * 64.0, 64.0),
        cross_rate=16 * 64.0,
        sigma=8.0,
        steps=20,
    ),
    NAVIER_STOKES,
    "uniform_grids/train_navier_stokes.py",
    SHORT,
)
paper_ns = Preset(
    NavierStokesOFormer,
    replace(code_ns.config, width=128),
    NAVIER_STOKES,
    "Li, Meidani & Barati Farimani 2023, tables 5 to 7, 2D Navier-Stokes",
    SHORT,
)

electrostatics = Preset(
    StaticsOFormer,
    PublishedOFormerConfig(
        width=64, latent=64, blocks=2, cross=4, rates=(50 * 50.0, 12 * 50.0), cross_rate=50.0
    ),
    STATICS,
    "Li, Meidani & Barati Farimani 2023, tables 8 to 10, 2D Electrostatics; BVP/train_electro.py",
    SMALL,
)
code_magnetostatics = Preset(
    StaticsOFormer,
    replace(electrostatics.config, latent=96),
    STATICS,
    "BVP/train_magneto.py",
    SMALL,
)
paper_magnetostatics = Preset(
    StaticsOFormer,
    replace(electrostatics.config, width=96, latent=96),
    STATICS,
    "Li, Meidani & Barati Farimani 2023, tables 8 to 10, 2D Magnetostatics",
    SMALL,
)

code_airfoil = Preset(
    AirfoilOFormer,
    PublishedOFormerConfig(
        width=128,
        latent=128,
        cross=4,
        rates=(32 * 200.0, 16 * 200.0, 16 * 200.0, 200.0),
        cross_rate=32 * 200.0,
        sigma=2.0,
        steps=22,
    ),
    AIRFOIL,
    "airfoil/train_airfoil.py",
    SHORT,
)
paper_airfoil = Preset(
    AirfoilOFormer,
    replace(
        code_airfoil.config,
        blocks=5,
        rates=(32 * 200.0, 16 * 200.0, 8 * 200.0, 8 * 200.0, 200.0),
    ),
    AIRFOIL,
    "Li, Meidani & Barati Farimani 2023, tables 8 to 10, 2D Airfoil",
    SHORT,
)

ROLLOUT = Preset(OFormerRollout, OFormerConfig(steps=20), small={"steps": 2})
"""Also under its old name ``march``."""

PRESETS: Presets = {
    "default": Preset(OFormer, OFormerConfig()),
    "rollout": ROLLOUT,
    "march": ROLLOUT,
    "paper_burgers": burgers,
    "code_burgers": burgers,
    "paper_darcy": paper_darcy,
    "code_darcy": code_darcy,
    "paper_navier_stokes": paper_ns,
    "code_navier_stokes": code_ns,
    "paper_electrostatics": electrostatics,
    "code_electrostatics": electrostatics,
    "paper_magnetostatics": paper_magnetostatics,
    "code_magnetostatics": code_magnetostatics,
    "paper_airfoil": paper_airfoil,
    "code_airfoil": code_airfoil,
}
