"""What both DeepONets read: inputs at sensors that never move, and the coordinates of a query."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from piop.fields import FunctionSamples
from piop.models.core.base import AxisSignature, InputSignature, Signature, standardised
from piop.models.core.coordinates import angles
from piop.models.core.interpolation import nearest
from piop.models.core.spectrum import Spectrum


class FixedSensors(nn.Module):
    """Reads every input on a lattice laid when the network is built: a branch has no other sensors.

    A DeepONet's first layer has one weight per sensor, so its sensors are fixed for good. Any
    sensors are honoured by reading the lattice off them: a smooth input by its harmonic fit
    (:class:`Spectrum`), an input with jumps at the nearest sensor. Given sensors that resolve the
    input well, what is read does not depend on where they are; what they do not show is not there.

    Args:
        signature: The problem's shapes and scales.

    Attributes:
        features: Numbers read of one function: lattice points times channels, and the scalars.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature
        self.fits = nn.ModuleDict(
            {
                entry.name: Spectrum(
                    entry, [signature.coordinates[signature.axis(n)] for n in entry.of]
                )
                for entry in signature.functions
            }
        )
        counts = [self._lattice(e).shape[1] * e.channels for e in signature.functions]
        counts += [entry.channels for entry in signature.scalars]
        self.features = sum(counts) or 1

    def forward(self, inputs: Mapping[str, FunctionSamples], like: Tensor) -> Tensor:
        """Read the inputs.

        Args:
            inputs: Sensors of B functions.
            like: A tensor of the device and dtype wanted where there are no inputs.

        Returns:
            ``[B, features]``, standardised; a one ``[1, 1]`` for a problem without inputs.
        """
        columns = [self._read(e, inputs[e.name]).flatten(1) for e in self.signature.functions]
        columns += [standardised(e, inputs[e.name])[:, 0] for e in self.signature.scalars]
        if not columns:
            return torch.ones(1, 1, dtype=like.dtype, device=like.device)
        return torch.cat(columns, -1)

    def _read(self, entry: InputSignature, samples: FunctionSamples) -> Tensor:
        """Values on the lattice ``[B, L, c]``."""
        fit: Spectrum = self.fits[entry.name]  # type: ignore[assignment]
        lattice = fit.lattice(samples.points)
        if entry.smooth:
            return fit.basis(lattice) @ fit(samples)
        return nearest(standardised(entry, samples), samples, lattice, fit.axes)

    def _lattice(self, entry: InputSignature) -> Tensor:
        fit: Spectrum = self.fits[entry.name]  # type: ignore[assignment]
        return fit.lattice(torch.zeros(()))


class TrunkCoordinates(nn.Module):
    """Coordinates as a trunk reads them: harmonics round a period, from −1 to 1 along other axes.

    With harmonics the answer is periodic for any weights (Lu et al. 2021, SIAM J. Sci. Comput. 43,
    sec. on periodic conditions, doi:10.1137/21M1397908). Where periodicity is to be penalised
    instead, as in Wang et al. 2021, the axis is not declared periodic and enters as it is.

    Args:
        axes: The coordinates.
        frequencies: Harmonics of a periodic axis.

    Attributes:
        features: Numbers per query.
    """

    def __init__(self, axes: tuple[AxisSignature, ...], frequencies: int) -> None:
        super().__init__()
        self.axes, self.frequencies = axes, frequencies
        self.features = sum(2 * frequencies if axis.periodic else 1 for axis in axes)

    def forward(self, queries: Tensor) -> Tensor:
        """Encode ``queries [B, N, D]``: ``[B, N, features]``, dimensionless."""
        columns = []
        for i, axis in enumerate(self.axes):
            column = queries[..., i : i + 1]
            if not axis.periodic:
                columns.append((column - axis.low) * (2 / (axis.high - axis.low)) - 1)
                continue
            rates = range(1, self.frequencies + 1)
            turns = torch.tensor(list(rates), dtype=queries.dtype, device=queries.device)
            phase = angles(column, [axis]) * turns
            columns += [torch.cos(phase), torch.sin(phase)]
        return torch.cat(columns, -1)


def glorot(inputs: int, outputs: int) -> nn.Linear:
    """Make a layer as both papers' codes do: Glorot's normal weights, no bias at the start."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def paired(trunk: Tensor, branch: Tensor, channels: int) -> Tensor:
    """Sum trunk times branch over the latent of each channel.

    Args:
        trunk: ``[B, N, C p]``, or ``[1, N, C p]`` for queries that all functions share.
        branch: ``[B, C p]``, or ``[1, C p]`` where there are no inputs.
        channels: C; the latent is split among them.

    Returns:
        ``[B, N, C]``.
    """
    split = (channels, branch.shape[-1] // channels)
    t, b = trunk.unflatten(-1, split), branch.unflatten(-1, split)
    if t.shape[0] == 1:
        return torch.einsum("nck,bck->bnc", t.squeeze(0), b)
    return torch.einsum("bnck,bck->bnc", t, b.expand(t.shape[0], -1, -1))
