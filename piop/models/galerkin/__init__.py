"""The Galerkin transformer: piop's own for physics, and the three examples of its paper."""

from __future__ import annotations

from dataclasses import replace

from piop.models.core.base import InputSignature, Preset, Presets, Signature, unit_axes
from piop.models.galerkin.attention import GalerkinConfig, GalerkinForm
from piop.models.galerkin.network import FinalGalerkinTransformer, GalerkinTransformer

RING = Signature(
    (*unit_axes("t"), *unit_axes("x", periodic=True)),
    (InputSignature("u0", ("x",)),),
    time=0,
    homogeneous=("x",),
)

PERMEABILITY = Signature(
    unit_axes("xy"), (InputSignature("a", ("x", "y"), smooth=False, gridded=True),)
)

PRESSURE = Signature(unit_axes("xy"), (InputSignature("u", ("x", "y")),))

FRAMES = Signature(
    unit_axes("xy", periodic=True),
    (InputSignature("w", ("x", "y"), channels=10),),
    homogeneous=("x", "y"),
)
"""Ten frames of a vorticity, from which the next one follows."""

SMALL = {"width": 16, "blocks": 1, "modes": 4}

SMALL_CNN = {**SMALL, "fine": 12, "coarse": 6}

PUBLISHED = GalerkinForm(raw=True, activation="relu")

BURGERS = Preset(
    FinalGalerkinTransformer,
    GalerkinConfig(96, 4, 1, modes=16, form=replace(PUBLISHED, latent=48, places="heads")),
    RING,
    "Cao 2021, Table 2a",
    SMALL,
)


CNN = GalerkinConfig(blocks=6, heads=4, fine=141)


def darcy(coarse: int) -> Preset:
    """Make the network of example 2 with so many tokens per axis."""
    form = replace(PUBLISHED, latent=32, projection=128, places="decoder", eps=1e-7, dirichlet=True)
    sizes = replace(CNN, width=128, modes=12, coarse=coarse, form=form)
    source = "Cao 2021, Table 2b, n_f = 141"
    return Preset(GalerkinTransformer, sizes, PERMEABILITY, source, SMALL_CNN)


def inverse(coarse: int, norm: str) -> Preset:
    """Make the network of example 3 with so many tokens per axis."""
    form = replace(PUBLISHED, places="decoder")
    sizes = replace(CNN, width=192, norm=norm, decoder="pointwise", coarse=coarse, form=form)
    return Preset(GalerkinTransformer, sizes, PRESSURE, "Cao 2021, Table 3, n_f = 141", SMALL_CNN)


NAVIER_STOKES = Preset(
    GalerkinTransformer,
    GalerkinConfig(
        48, 4, 1, norm="tokens", modes=12, form=replace(PUBLISHED, latent=20, projection=20)
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
