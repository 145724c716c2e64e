"""The Galerkin transformer: piop's own for physics, and the three examples of its paper."""

from __future__ import annotations

from piop.models.core.base import AxisSignature, InputSignature, Preset, Presets, Signature
from piop.models.galerkin.network import (
    FinalGalerkinTransformer,
    GalerkinConfig,
    GalerkinForm,
    GalerkinTransformer,
)

UNIT = (AxisSignature("x", 0.0, 1.0), AxisSignature("y", 0.0, 1.0))

RING = Signature(
    (AxisSignature("t", 0.0, 1.0), AxisSignature("x", 0.0, 1.0, periodic=True)),
    (InputSignature("u0", ("x",)),),
    time=0,
    homogeneous=("x",),
)

PERMEABILITY = Signature(UNIT, (InputSignature("a", ("x", "y"), smooth=False, gridded=True),))

PRESSURE = Signature(UNIT, (InputSignature("u", ("x", "y")),))

FRAMES = Signature(
    (
        AxisSignature("x", 0.0, 1.0, periodic=True),
        AxisSignature("y", 0.0, 1.0, periodic=True),
    ),
    (InputSignature("w", ("x", "y"), channels=10),),
    homogeneous=("x", "y"),
)
"""Ten frames of a vorticity, from which the next one follows."""

SMALL = {"width": 16, "blocks": 1, "modes": 4}

SMALL_CNN = {**SMALL, "fine": 12, "coarse": 6}

BURGERS = Preset(
    FinalGalerkinTransformer,
    GalerkinConfig(
        width=96,
        blocks=4,
        heads=1,
        modes=16,
        form=GalerkinForm(latent=48, projection=48, places="heads", raw=True, activation="relu"),
    ),
    RING,
    "Cao 2021, Table 2a",
    SMALL,
)

DARCY_FORM = GalerkinForm(
    latent=32,
    projection=128,
    places="decoder",
    raw=True,
    activation="relu",
    eps=1e-7,
    dirichlet=True,
)


def darcy(coarse: int) -> Preset:
    """Make the network of example 2 with so many tokens per axis."""
    sizes = GalerkinConfig(
        width=128, blocks=6, heads=4, modes=12, fine=141, coarse=coarse, form=DARCY_FORM
    )
    return Preset(
        GalerkinTransformer, sizes, PERMEABILITY, "Cao 2021, Table 2b, n_f = 141", SMALL_CNN
    )


def inverse(coarse: int, norm: str) -> Preset:
    """Make the network of example 3 with so many tokens per axis."""
    sizes = GalerkinConfig(
        width=192,
        blocks=6,
        heads=4,
        norm=norm,
        decoder="pointwise",
        fine=141,
        coarse=coarse,
        form=GalerkinForm(places="decoder", raw=True, activation="relu"),
    )
    return Preset(GalerkinTransformer, sizes, PRESSURE, "Cao 2021, Table 3, n_f = 141", SMALL_CNN)


NAVIER_STOKES = Preset(
    GalerkinTransformer,
    GalerkinConfig(
        width=48,
        blocks=4,
        heads=1,
        norm="tokens",
        modes=12,
        form=GalerkinForm(latent=20, projection=20, raw=True, activation="relu"),
    ),
    FRAMES,
    "github.com/scaomath/galerkin-transformer, f9e7d6a, examples/ex4_navier_stokes_2+1d.py",
    SMALL,
)
"""One step of the vorticity, as published code has it; the paper does not show it."""

PRESETS: Presets = {
    "default": Preset(GalerkinTransformer, GalerkinConfig(), small=SMALL),
    "paper_burgers": BURGERS,
    "code_burgers": BURGERS,
    "paper_darcy": darcy(43),
    "code_darcy": darcy(71),
    "paper_darcy_inverse": inverse(36, "heads"),
    "code_darcy_inverse": inverse(71, "tokens"),
    "code_navier_stokes": NAVIER_STOKES,
}
