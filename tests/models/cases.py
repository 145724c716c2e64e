"""Problems' shapes of every kind, and random samples for them."""

from __future__ import annotations

import math

import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature

TIME = AxisSignature("t", 0.0, 2.475)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
UNIT = AxisSignature("y", -1.0, 1.0, periodic=True)
WALLED = AxisSignature("z", 0.0, 2.0)

SIGNATURES = {
    "evolution": Signature(
        (TIME, RING), (InputSignature("u0", ("x",), mean=0.1, std=0.6),), 1, 0, ("x",)
    ),
    "plane": Signature((TIME, RING, UNIT), (InputSignature("u0", ("x", "y")),), 2, 0, ("x", "y")),
    "place matters": Signature((TIME, RING), (InputSignature("u0", ("x",)),), 1, 0),
    "walls": Signature((TIME, WALLED), (InputSignature("u0", ("z",)),), 1, 0),
    "steady": Signature(
        (RING, WALLED), (InputSignature("a", ("x", "z"), smooth=False),), 1, None, ("x",)
    ),
    "steady and homogeneous": Signature((RING,), (InputSignature("f", ("x",)),), 1, None, ("x",)),
    "several": Signature(
        (TIME, RING),
        (
            InputSignature("nu", (), mean=0.05, std=0.02),
            InputSignature("u0", ("x",), channels=2),
            InputSignature("f", ("t", "x")),
            InputSignature("k", ("x",), smooth=False),
        ),
        3,
        0,
        ("x",),
    ),
    "scalar alone": Signature((TIME, RING), (InputSignature("nu", ()),), 1, 0, ("x",)),
    "none": Signature((TIME, RING), (), 1, 0, ("x",)),
}


def samples_for(
    signature: Signature, batch: int = 2, sensors: int = 40, seed: int = 0
) -> dict[str, FunctionSamples]:
    """Random sensors at random places, float64."""
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for entry in signature.inputs:
        count = sensors if entry.of else 1
        axes = [signature.coordinates[signature.axis(name)] for name in entry.of]
        unit = torch.rand(batch, count, len(axes), generator=generator, dtype=torch.float64)
        low = torch.tensor([a.low for a in axes], dtype=torch.float64)
        length = torch.tensor([a.high - a.low for a in axes], dtype=torch.float64)
        values = torch.randn(batch, count, entry.channels, generator=generator, dtype=torch.float64)
        out[entry.name] = FunctionSamples(low + unit * length, values)
    return out


def queries_for(
    signature: Signature, batch: int = 2, count: int = 7, seed: int = 1
) -> torch.Tensor:
    """Random queries, float64."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(
        batch, count, len(signature.coordinates), generator=generator, dtype=torch.float64
    )
    low = torch.tensor([a.low for a in signature.coordinates], dtype=torch.float64)
    high = torch.tensor([a.high for a in signature.coordinates], dtype=torch.float64)
    return low + unit * (high - low)
