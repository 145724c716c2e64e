"""Nodes along an axis of space, and the matrices that differentiate values at them."""

from __future__ import annotations

from typing import Protocol, final

import torch
from numpy.polynomial import Legendre
from torch import Tensor

from piop.domain import Coordinate
from piop.residual.lattice import difference_matrix, interpolation_weights, lobatto_nodes

SHIFT = 0.4
"""Largest |log κ| of the map ξ → ξ/(ξ + (1 − ξ)κ) of [0, 1] that moves the nodes in space."""


class AxisNodes(Protocol):
    """Nodes that are moved at random, each function's by its own number."""

    def places(self, drawn: Tensor) -> Tensor:
        """Move the nodes by a random position on the axis for each function.

        Args:
            drawn: ``[B, 1]`` float64, in units of the axis.

        Returns:
            ``[B, n]`` float64.
        """
        ...

    def derivatives(self, places: Tensor, highest: int) -> Tensor:
        """Return (∂/∂x)ᵏ for k = 0, 1, …, ``highest``: ``[B, K, n, n]`` float64.

        Args:
            places: ``[B, n]`` float64 as :meth:`places` returns them, rounded perhaps.
            highest: K − 1.
        """
        ...

    def weights(self, places: Tensor, at: Tensor) -> Tensor:
        """Return the weights by which values at nodes are interpolated: ``[m, n]`` float64.

        Args:
            places: Nodes ``[n]`` float64 of one function.
            at: Positions on the axis ``[m]`` float64.
        """
        ...

    def quadrature(self, places: Tensor) -> Tensor:
        """Return the weights of an integral over the axis: ``[B, n]`` float64.

        Args:
            places: ``[B, n]`` float64 as :meth:`places` returns them, rounded perhaps.
        """
        ...


@final
class IntervalNodes:
    """Lobatto nodes between two walls, which stay where they are.

    Args:
        axis: The axis.
        count: n.
    """

    def __init__(self, axis: Coordinate, count: int) -> None:
        self._axis, self._nodes = axis, lobatto_nodes(count)
        values = Legendre.basis(count - 1)(2 * self._nodes.numpy() - 1)
        self._quadrature = torch.from_numpy(1 / (count * (count - 1) * values**2))
        # a number: tensors that are no arguments cannot be indexed while a graph is traced
        self._middle = float(self._nodes[count // 2])

    def places(self, drawn: Tensor) -> Tensor:
        """See :meth:`AxisNodes.places`."""
        kappa = (2 * SHIFT * ((drawn - self._axis.low) / self._axis.length - 0.5)).exp()
        nodes = self._nodes.to(drawn)
        return self._axis.low + self._axis.length * nodes / (nodes + (1 - nodes) * kappa)

    def derivatives(self, places: Tensor, highest: int) -> Tensor:
        """See :meth:`AxisNodes.derivatives`."""
        nodes = self._nodes.to(places)
        first = difference_matrix(nodes[None]) / self._stretch(places)[:, :, None]
        powers = [torch.eye(len(nodes)).to(first).expand_as(first)]
        for _ in range(highest):
            powers.append(first @ powers[-1])
        return torch.stack(powers, 1)

    def weights(self, places: Tensor, at: Tensor) -> Tensor:
        """See :meth:`AxisNodes.weights`."""
        kappa = self._kappa(places[None])[0]
        place = (at - self._axis.low) / self._axis.length
        back = place * kappa / (1 - place + place * kappa)
        return interpolation_weights(self._nodes.to(at), back)

    def quadrature(self, places: Tensor) -> Tensor:
        """See :meth:`AxisNodes.quadrature`.

        Source: Abramowitz & Stegun 1964, eq. 25.4.32, for [−1, 1].
        """
        return self._quadrature.to(places) * self._stretch(places)

    def _stretch(self, places: Tensor) -> Tensor:
        """Return the derivative of the map of the nodes, at each of them ``[B, n]``."""
        nodes, kappa = self._nodes.to(places), self._kappa(places)
        return self._axis.length * kappa / (nodes + (1 - nodes) * kappa) ** 2

    def _kappa(self, places: Tensor) -> Tensor:
        """Find by how much nodes ``[B, n]`` were moved ``[B, 1]``, from the middle one."""
        place = (places[:, len(self._nodes) // 2, None] - self._axis.low) / self._axis.length
        return self._middle * (1 - place) / (place * (1 - self._middle))


@final
class PeriodicNodes:
    """Even nodes of a periodic axis, which move together.

    Args:
        axis: The axis.
        count: n.
    """

    def __init__(self, axis: Coordinate, count: int) -> None:
        self._axis, self._count = axis, count

    def places(self, drawn: Tensor) -> Tensor:
        """See :meth:`AxisNodes.places`; the order of the nodes is that of the circle."""
        start = (drawn - self._axis.low) / self._axis.length
        even = torch.arange(self._count).to(drawn) / self._count
        return self._axis.low + self._axis.length * ((start + even) % 1)

    def derivatives(self, places: Tensor, highest: int) -> Tensor:
        """See :meth:`AxisNodes.derivatives`; of an even number of nodes the shortest wave has none.

        Source: Trefethen 2000, ch. 3 (doi:10.1137/1.9780898719598).
        """
        rates, _ = self._rates(places)
        one = torch.eye(self._count).to(rates)
        powers = [
            torch.fft.ifft(rates[:, None] ** k * torch.fft.fft(one, dim=0), dim=0).real
            for k in range(highest + 1)
        ]
        return torch.stack(powers).expand(len(places), -1, -1, -1)

    def weights(self, places: Tensor, at: Tensor) -> Tensor:
        """See :meth:`AxisNodes.weights`; without the shortest wave of an even number of nodes."""
        rates, kept = self._rates(places)
        waves = ((at[:, None, None] - places[:, None]) * rates).exp() * kept
        return waves.sum(-1).real / self._count

    def quadrature(self, places: Tensor) -> Tensor:
        """See :meth:`AxisNodes.quadrature`."""
        return torch.full_like(places, self._axis.length / self._count)

    def _rates(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return ik of the waves ``[n]``, and which have derivatives, 1 or 0."""
        waves = torch.fft.fftfreq(self._count, 1 / self._count, dtype=like.dtype)
        kept = torch.ones_like(waves)
        if self._count % 2 == 0:
            kept[self._count // 2] = 0.0
        rates = 2j * torch.pi * (kept * waves).to(like.device) / self._axis.length
        return rates, kept.to(like.device)
