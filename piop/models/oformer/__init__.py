"""OFormer: self-attention among tokens of the input, cross-attention of queries to them.

Z. Li, K. Meidani, A. Barati Farimani, *Transformer for Partial Differential Equations' Operator
Learning*, Transactions on Machine Learning Research (2023), arXiv:2205.13671. What the text leaves
open is from the authors' code (github.com/BaratiLab/OFormer, revision f1111b3). The presets are the
networks of the paper's benchmarks, by its tables and by its code.
"""

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
from piop.models.oformer.network import OFormer, OFormerConfig, OFormerRollout
from piop.models.oformer.published import (
    BurgersOFormer,
    DarcyOFormer,
    NavierStokesOFormer,
    PublishedOFormerConfig,
)
from piop.models.oformer.published_meshes import AirfoilOFormer, StaticsOFormer

SQUARE = unit_axes("xy")
TORUS = unit_axes("xy", periodic=True)

SMALL = {"width": 24, "latent": 24, "blocks": 2, "cross": 2}
SHORT = {**SMALL, "steps": 2}

BURGERS = Preset(
    BurgersOFormer,
    PublishedOFormerConfig(),
    Signature((*unit_axes("t"), TORUS[0]), (InputSignature("u0", ("x",)),), 1, 0, ("x",)),
    "uniform_grids/train_burgers.py",
    SMALL,
)

SIDE = 211
"""Points along an axis of the Darcy grid: λ, and the scale of the first layer in the code."""

DARCY = Preset(
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
    Signature(SQUARE, (InputSignature("a", ("x", "y"), smooth=False),)),
    "uniform_grids/train_darcy.py",
    SMALL,
)

PAST = InputSignature("history", ("x", "y"), channels=10)

NAVIER_STOKES = Preset(
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
    Signature((AxisSignature("t", 10.0, 30.0), *TORUS), (PAST,), 1, 0),
    "uniform_grids/train_navier_stokes.py",
    SHORT,
)

NODES = (
    InputSignature("features", ("x", "y"), channels=8),
    InputSignature("wall", ("x", "y"), smooth=False),
)
"""Eleven features of a node, among them its two coordinates and the label of the boundary."""

ELECTROSTATICS = Preset(
    StaticsOFormer,
    PublishedOFormerConfig(64, 64, 2, cross=4, rates=(50 * 50.0, 12 * 50.0), cross_rate=50.0),
    Signature(SQUARE, NODES, 3),
    "BVP/train_electro.py",
    SMALL,
)

MAGNETOSTATICS = replace(
    ELECTROSTATICS, config=replace(ELECTROSTATICS.config, latent=96), source="BVP/train_magneto.py"
)

FLOW = (
    InputSignature("history", ("x", "y"), channels=16),
    InputSignature("kind", ("x", "y"), channels=3, smooth=False),
)
"""Four frames of two velocities, density and pressure; three kinds of node, one column each."""

AIRFOIL = Preset(
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
    Signature((AxisSignature("t", 0.576, 4.8), *SQUARE), FLOW, 4, 0),
    "airfoil/train_airfoil.py",
    SHORT,
)
AIRFOIL_RATES = (32 * 200.0, 16 * 200.0, 8 * 200.0, 8 * 200.0, 200.0)

ROLLOUT = Preset(OFormerRollout, OFormerConfig(steps=20), small={"steps": 2})
"""Also under its old name ``march``."""

GRIDS = "Li, Meidani & Barati Farimani 2023, tables 5 to 7"
MESHES = "Li, Meidani & Barati Farimani 2023, tables 8 to 10"


def benchmark(name: str, code: Preset, paper: str, **of_paper: Any) -> Presets:
    """Make the two presets of a benchmark, one object where paper and code agree.

    Args:
        name: That of the benchmark.
        code: The network of the script.
        paper: The column of the paper's table.
        **of_paper: Sizes of the paper that differ from those of the script.
    """
    if not of_paper:
        code = replace(code, source=f"{paper}; {code.source}")
        return {f"paper_{name}": code, f"code_{name}": code}
    config = replace(code.config, **of_paper)
    return {f"paper_{name}": replace(code, config=config, source=paper), f"code_{name}": code}


PRESETS: Presets = {
    "default": Preset(OFormer, OFormerConfig()),
    "rollout": ROLLOUT,
    "march": ROLLOUT,
    **benchmark("burgers", BURGERS, f"{GRIDS}, 1D Burgers"),
    **benchmark("darcy", DARCY, f"{GRIDS}, 2D Darcy flow", blocks=4),
    **benchmark("navier_stokes", NAVIER_STOKES, f"{GRIDS}, 2D Navier-Stokes", width=128),
    **benchmark("electrostatics", ELECTROSTATICS, f"{MESHES}, 2D Electrostatics"),
    **benchmark("magnetostatics", MAGNETOSTATICS, f"{MESHES}, 2D Magnetostatics", width=96),
    **benchmark("airfoil", AIRFOIL, f"{MESHES}, 2D Airfoil", blocks=5, rates=AIRFOIL_RATES),
}
