"""The position-induced transformer: for physics, and the six columns of its paper.

Sizes from Chen & Wu 2024 (arXiv:2405.09285), tables 7 to 9. ``paper_*`` takes λ as the text has
it (table 3: r² or tan r, whichever did better there); ``code_*`` as the TensorFlow release does
(github.com/junfeng-chen/position_induced_transformer, revision 05d1c2d).
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
from piop.models.position_attention.network import PositionAttentionField
from piop.models.position_attention.published import MeshPositionAttention, MeshPositionConfig
from piop.models.position_attention.smooth_kernels import PositionAttentionConfig

BURGERS = Signature(
    (AxisSignature("t", 0.0, 0.1), *unit_axes("x", periodic=True)),
    (InputSignature("u0", ("x",)),),
    1,
    0,
)
"""Inviscid Burgers to t = 0.1 on 1024 points (app. A.1)."""

SOD = Signature(
    (AxisSignature("t", 0.0, 1.5), AxisSignature("x", -5.0, 5.0)),
    (InputSignature("U0", ("x",), channels=3, smooth=False),),
    1,
    0,
)
"""Density, momentum and energy to the energy at t = 1.5, on 2048 points (app. A.2)."""

DARCY = Signature(unit_axes("xy"), (InputSignature("a", ("x", "y"), smooth=False),), 1)
"""Permeability to pressure, 211 × 211 (app. A.3)."""

VORTICITY = Signature(
    (AxisSignature("t", 10.0, 11.0), *unit_axes("xy", periodic=True)),
    (InputSignature("w0", ("x", "y"), channels=10),),
    1,
    0,
)
"""Ten snapshots of the vorticity to the next, 64 × 64 (app. A.4)."""

ELASTICITY = Signature(unit_axes("xy"), (InputSignature("shape", (), channels=42),), 1)
"""42 radii of a cavity, as scalars, to the stress on the mesh of the queries (app. A.5)."""

NACA = Signature(unit_axes("ij"), (InputSignature("mesh", ("i", "j"), channels=2),), 1)
"""Places of a C-mesh, as functions of its two indices, to the Mach number, 221 × 51 (app. A.6).

Distances are between indices, on the unit square: positions are features alone.
"""

SMALL = {"width": 16, "blocks": 2, "latent": (5,), "local": (0.3, 0.6)}
"""The same networks cheap to test; quantiles wide enough that few sensors are several."""


def column(
    name: str, signature: Signature, by_code: str, by_text: str, *sizes: Any, **choices: Any
) -> Presets:
    """Make the two presets of a column of the paper's tables, one object where both agree.

    Args:
        name: That of the column.
        signature: The benchmark's shapes.
        by_code: λ of the code.
        by_text: λ of the text.
        *sizes: Width, heads, blocks and latent points per axis.
        **choices: Other fields of the config.
    """
    config = MeshPositionConfig(*sizes, sharpness=by_code, **choices)
    source = f"Chen & Wu 2024, table 9, {name}; λ of "
    code = Preset(
        MeshPositionAttention, config, signature, source + "the TensorFlow release", SMALL
    )
    text = replace(code, config=replace(config, sharpness=by_text), source=source + "table 3")
    return {f"paper_{name}": code if by_text == by_code else text, f"code_{name}": code}


SINE, TAN, SQUARE = "sine_tangent", "tangent", "square"

PRESETS: Presets = {
    "default": Preset(PositionAttentionField, PositionAttentionConfig()),
    **column("burgers", BURGERS, SINE, TAN, 64, 2, 4, (1024,), local=(0.01, 0.08), ends="block"),
    **column("sod", SOD, SQUARE, SQUARE, 64, 2, 4, (1024,), local=(0.04, 0.02), ends="block"),
    **column("darcy", DARCY, SINE, TAN, 128, 2, 4, (32,), local=(0.02, 0.05)),
    **column(
        "vorticity", VORTICITY, SINE, SQUARE, 256, 1, 4, (16,), local=(0.01, 0.08), scaled=False
    ),
    **column(
        "elasticity", ELASTICITY, SQUARE, SQUARE, 512, 8, 4, local=(0.02, 0.02), ends="residual"
    ),
    **column("naca", NACA, TAN, TAN, 256, 2, 4, (111, 26), local=(0.005, 0.02)),
}
