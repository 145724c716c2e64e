"""Fourier neural operators: piop's own, those of the papers' comparisons, neuraloperator's.

Counts of parameters were worked out from the layers and agree with the published ones, with one
reservation: for the inviscid Burgers' equation and the shock tube the PiT paper, citing Lanthaler
et al. 2023, counts a complex weight of the plain network once; a pair of reals is two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piop.models.core.base import InputSignature, Preset, Presets, Signature, unit_axes
from piop.models.fno.network import FNO, FinalFNO, FNOConfig

SMALL = {"width": 6, "blocks": 2, "modes": 3, "time_modes": 2, "projection": 8}


def shapes(space: str, channels: int = 1, time: bool = False, periodic: bool = False) -> Signature:
    """Give the shapes of a benchmark on the unit interval or square.

    Args:
        space: Names of its coordinates, a letter each.
        channels: Values of the input at a point.
        time: Whether the output is a state at a later time.
        periodic: Whether the domain is.
    """
    axes = (*unit_axes("t" if time else ""), *unit_axes(space, periodic))
    values = InputSignature("a", tuple(space), channels, smooth=False, gridded=True)
    return Signature(axes, (values,), 1, 0 if time else None)


PLAIN = FNOConfig(
    width=32, blocks=4, modes=12, time_modes=8, form="plain", projection=128, padding=0.0, raw=True
)
"""The authors' network for two dimensions, with their GELU of 2021 in place of the paper's ReLU."""

INNER = replace(PLAIN, form="inner")
"""FNO++ of the PiT paper: the authors' code of 2022 (github.com/zongyi-li/
fourier_neural_operator), with a perceptron after each convolution."""

OUTER = replace(PLAIN, form="outer", projection=64)
"""The class FNO of neuraloperator 2.0.0 with its usual choices, n_modes being twice ``modes``."""

FLAT = shapes("xy")
LINE = shapes("x", time=True, periodic=True)
TUBE = shapes("x", 3, time=True)  # density, momentum and energy
FLOW = shapes("xy", 10, time=True, periodic=True)  # ten steps of the vorticity, to the next one

PIT = "Chen & Wu 2024 (PiT), FNO of table"
CAO = "Cao 2021, FNO of table 5"


def published(
    build: type, signature: Signature, source: str, config: FNOConfig = PLAIN, **changes: Any
) -> Preset:
    """Make a preset by changes of a config; it is tested with fewer harmonics and channels."""
    return Preset(build, replace(config, **changes), signature, source, SMALL)


COLUMNS: Presets = {
    "darcy": published(FNO, FLAT, f"{PIT} 12, Darcy2D; {CAO}, 2-D"),
    "elasticity": published(FNO, FLAT, f"{PIT} 13, Elasticity"),
    "naca": published(FNO, FLAT, f"{PIT} 13, NACA"),
    "vorticity": published(FinalFNO, FLOW, f"{PIT} 12, Vorticity", width=20, unused_norms=True),
    "inviscid_burgers": published(FinalFNO, LINE, f"{PIT} 11, InviscidBurgers", modes=20),
    "sod": published(FinalFNO, TUBE, f"{PIT} 11, ShockTube", modes=8),
    "burgers": published(FinalFNO, LINE, f"{CAO}, 1-D", width=64, modes=16, activation="relu"),
    "navier_stokes_3d": published(
        FNO,
        FLOW,
        "Li et al. 2021, FNO-3D of table 1; Li, Meidani & Barati Farimani 2022, table 11",
        width=20,
        modes=8,
        unused_norms=True,
    ),
    "plus_darcy": published(FNO, FLAT, f"{PIT} 12 (FNO++), Darcy2D", INNER),
    "plus_vorticity": published(
        FinalFNO, FLOW, f"{PIT} 12 (FNO++), Vorticity", INNER, width=20, projection=80
    ),
    "plus_inviscid_burgers": published(
        FinalFNO, LINE, f"{PIT} 11 (FNO++), InviscidBurgers", INNER, modes=19, projection=64
    ),
    "plus_sod": published(
        FinalFNO, TUBE, f"{PIT} 11 (FNO++), ShockTube", INNER, modes=7, projection=64
    ),
}
"""What the papers' tables compare with. Their code is what they ran: both names, one object."""

NEURALOP = "neuraloperator 2.0.0"

PRESETS: Presets = {
    "default": Preset(FNO, FNOConfig(), small={"width": 8, "blocks": 2, "projection": 16}),
    **{f"paper_{column}": preset for column, preset in COLUMNS.items()},
    **{f"code_{column}": preset for column, preset in COLUMNS.items()},
    "neuralop_burgers": published(
        FinalFNO, LINE, NEURALOP, OUTER, width=64, modes=8, projection=128
    ),
    "neuralop_darcy": published(FNO, FLAT, NEURALOP, OUTER, modes=8),
    "neuralop_space_time": published(
        FNO, FLOW, NEURALOP, OUTER, width=12, modes=4, time_modes=4, projection=24
    ),
}
