"""The position-induced transformer: for physics, and the six columns of its paper.

Sizes from Chen & Wu 2024 (arXiv:2405.09285), tables 7 to 9. ``paper_*`` takes λ as the text has
it (table 3: r² or tan r, whichever did better there); ``code_*`` as the TensorFlow release does
(github.com/junfeng-chen/position_induced_transformer, revision 05d1c2d).
"""

from __future__ import annotations

from dataclasses import replace

from piop.models.core.base import AxisSignature, InputSignature, Preset, Presets, Signature
from piop.models.position_attention.network import PositionAttentionConfig, PositionAttentionField
from piop.models.position_attention.published import MeshPositionAttention, MeshPositionConfig

T = AxisSignature("t", 0.0, 0.1)
X, Y = AxisSignature("x", 0.0, 1.0), AxisSignature("y", 0.0, 1.0)
RING, OTHER = AxisSignature("x", 0.0, 1.0, True), AxisSignature("y", 0.0, 1.0, True)

BURGERS = Signature((T, RING), (InputSignature("u0", ("x",)),), 1, 0)
"""Inviscid Burgers to t = 0.1 on 1024 points (app. A.1)."""

SOD = Signature(
    (AxisSignature("t", 0.0, 1.5), AxisSignature("x", -5.0, 5.0)),
    (InputSignature("U0", ("x",), channels=3, smooth=False),),
    1,
    0,
)
"""Density, momentum and energy to the energy at t = 1.5, on 2048 points (app. A.2)."""

DARCY = Signature((X, Y), (InputSignature("a", ("x", "y"), smooth=False),), 1)
"""Permeability to pressure, 211 × 211 (app. A.3)."""

VORTICITY = Signature(
    (AxisSignature("t", 10.0, 11.0), RING, OTHER),
    (InputSignature("w0", ("x", "y"), channels=10),),
    1,
    0,
)
"""Ten snapshots of the vorticity to the next, 64 × 64 (app. A.4)."""

ELASTICITY = Signature((X, Y), (InputSignature("shape", (), channels=42),), 1)
"""42 radii of a cavity, as scalars, to the stress on the mesh of the queries (app. A.5)."""

NACA = Signature(
    (AxisSignature("i", 0.0, 1.0), AxisSignature("j", 0.0, 1.0)),
    (InputSignature("mesh", ("i", "j"), channels=2),),
    1,
)
"""Places of a C-mesh, as functions of its two indices, to the Mach number, 221 × 51 (app. A.6).

Distances are between indices, on the unit square: positions are features alone.
"""

CODE = {
    "burgers": (
        MeshPositionConfig(64, 2, 4, (1024,), local=(0.01, 0.08), ends="block"),
        BURGERS,
        "sine_tangent",
    ),
    "sod": (
        MeshPositionConfig(64, 2, 4, (1024,), local=(0.04, 0.02), ends="block"),
        SOD,
        "square",
    ),
    "darcy": (MeshPositionConfig(128, 2, 4, (32,), local=(0.02, 0.05)), DARCY, "sine_tangent"),
    "vorticity": (
        MeshPositionConfig(256, 1, 4, (16,), local=(0.01, 0.08), scaled=False),
        VORTICITY,
        "sine_tangent",
    ),
    "elasticity": (
        MeshPositionConfig(512, 8, 4, local=(0.02, 0.02), ends="residual"),
        ELASTICITY,
        "square",
    ),
    "naca": (MeshPositionConfig(256, 2, 4, (111, 26), local=(0.005, 0.02)), NACA, "tangent"),
}
"""Sizes, shapes, and λ of the code."""

PAPER = {
    "burgers": "tangent",
    "sod": "square",
    "darcy": "tangent",
    "vorticity": "square",
    "elasticity": "square",
    "naca": "tangent",
}
"""λ of the text."""


SMALL = {"width": 16, "blocks": 2, "latent": (5,), "local": (0.3, 0.6)}
"""The same networks cheap to test; quantiles wide enough that few sensors are several."""


def _column(name: str) -> dict[str, Preset]:
    config, signature, sharpness = CODE[name]
    code = replace(config, sharpness=sharpness)
    paper = replace(config, sharpness=PAPER[name])
    source = f"Chen & Wu 2024, table 9, {name}"
    by_code = Preset(
        MeshPositionAttention, code, signature, f"{source}; λ of the TensorFlow release", SMALL
    )
    by_text = Preset(MeshPositionAttention, paper, signature, f"{source}; λ of table 3", SMALL)
    return {f"paper_{name}": by_code if paper == code else by_text, f"code_{name}": by_code}


PRESETS: Presets = {
    "default": Preset(PositionAttentionField, PositionAttentionConfig()),
    **{key: preset for name in CODE for key, preset in _column(name).items()},
}
