"""Input functions read at points that are no grid."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.base import standardised
from piop.models.fixed import nearest
from piop.models.grid_inputs import GridInputs
from piop.models.spectrum import Spectrum


def at_points(reader: GridInputs, inputs: Mapping[str, FunctionSamples], queries: Tensor) -> Tensor:
    """Read every input at queries: a smooth one by its harmonic fit, one with jumps by sensors.

    Args:
        reader: Whose fits are used.
        inputs: Sensors of B functions.
        queries: ``[B or 1, N, D]``.

    Returns:
        ``[B, N, features]``, standardised; B = 1 where there are no inputs and one set of queries.
    """
    signature, columns = reader.signature, []
    for entry in signature.inputs:
        values = standardised(entry, inputs[entry.name])
        if entry.of:
            fit: Spectrum = reader.fits[entry.name]  # type: ignore[assignment]
            places = torch.stack([queries[..., signature.axis(name)] for name in entry.of], -1)
            if entry.smooth:
                values = fit.basis(places) @ fit(inputs[entry.name])
            else:
                values = nearest(values, inputs[entry.name], places, fit.axes)
        columns.append(values)
    batch = max([len(queries), *(len(column) for column in columns)])
    count = queries.shape[1]
    if not columns:
        return queries.new_zeros(batch, count, 0)
    return torch.cat([column.expand(batch, count, -1) for column in columns], -1)
