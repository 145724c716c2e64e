"""Check that a network output depends on its own query alone, as physics at points needs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.fields import FunctionSamples, tensor_grid
from piop.models import AxisSignature, Backbone, InputSignature, Signature
from piop.sampling import Draws
from piop.sampling.collocation import scale_to_box
from piop.training.batches.input_grid import Axes

FUNCTIONS, QUERIES, SENSORS = 2, 8, 16
"""Functions, queries and, for inputs without an even grid, sensors of the check of a network."""
SHIFT = 0.25
"""How far a query is moved inwards, as a fraction of the spread of the queries."""
TOLERANCE = 16
"""Largest change of another output that counts as rounding, in units of rounding of the largest."""


@dataclass(frozen=True)
class Coupling:
    """An output that moved although its own query did not.

    Attributes:
        moved: Number of the query that was moved.
        query: Number of the query at which the output changed most.
        channel: Channel of that output.
        change: By how much it changed, relative to the largest output.
    """

    moved: int
    query: int
    channel: int
    change: float


def find_coupling(field: Callable[[Tensor], Tensor], queries: Tensor) -> Coupling | None:
    """Move one query and look for another output that changes.

    Args:
        field: Callable on queries ``[B, N, D]`` that returns ``[B, N, C]``.
        queries: At least two per function.

    Returns:
        The largest change; None if every output depends on its own query alone.

    Raises:
        ValueError: If there are fewer than two queries.
    """
    if queries.shape[1] < 2:
        raise ValueError(f"{queries.shape[1]} query per function cannot show a coupling; give two")
    middle = queries.shape[1] // 2
    low, high = queries.amin((0, 1)), queries.amax((0, 1))
    step = SHIFT * torch.where(high > low, high - low, 1.0)
    moved = queries.clone()
    moved[:, middle] += torch.where(queries[:, middle] < (low + high) / 2, step, -step)
    with torch.no_grad():
        values = field(queries)
        change = (field(moved) - values).abs()
    change[:, middle] = 0.0
    scale, largest = values.abs().max(), change.max()
    if not bool(largest > TOLERANCE * torch.finfo(change.dtype).eps * scale):
        return None
    _, query, channel = torch.unravel_index(change.argmax(), change.shape)
    return Coupling(middle, int(query), int(channel), float(largest / scale))


def require_independent_queries(
    name: str,
    backbone: Backbone,
    grids: Mapping[str, Axes],
    like: Tensor,
) -> None:
    """Refuse a network whose output at a query depends on other queries.

    The network is evaluated on made-up inputs with a copy of its weights, of which those that are
    all zero are drawn, lest a last layer that starts at zero hide a coupling. It stays in its
    training mode, in which normalisation over a batch couples queries.

    Args:
        name: The name of the backbone.
        backbone: The network.
        grids: Positions along each axis of the grids on which it takes inputs, by name.
        like: A tensor of its device and precision.

    Raises:
        UsageError: If it couples queries.
    """
    signature = backbone.signature
    draws = Draws(0, 0, torch.arange(FUNCTIONS, device=like.device))
    queries = _points(draws, "queries", signature.coordinates, QUERIES).to(like)
    inputs = {e.name: _samples(draws, e, signature, grids).to(like) for e in signature.inputs}
    network = copy.deepcopy(backbone)
    _fill_zero_parameters(network, draws)

    def field(queries: Tensor) -> Tensor:
        with torch.random.fork_rng([like.device] if like.is_cuda else []):
            torch.manual_seed(0)  # the same dropout each time
            return network(inputs, queries)

    found = find_coupling(field, queries)
    if found is not None:
        raise UsageError(
            f"backbone {name!r} couples queries: moving query {found.moved} of {QUERIES} changes "
            f"output {found.channel} at query {found.query} by {found.change:.1g} of the largest "
            f"output. Physics at points differentiates each output with respect to its own query "
            f"alone, so the network would be trained on wrong derivatives. Let it compute each "
            f"output from its own query (no mean, normalisation or attention over queries), or "
            f"evaluate it on a grid (field = GRID_FIELD, of piop.models.core.base); see "
            f"docs/backbones.md"
        )


def _points(draws: Draws, stream: str, axes: Sequence[AxisSignature], count: int) -> Tensor:
    """Draw points in the box of axes ``[B, N, D]``."""
    unit = draws.uniform(f"independence/{stream}", count, len(axes))
    return scale_to_box(unit, [(a.low, a.high) for a in axes])


def _samples(
    draws: Draws,
    entry: InputSignature,
    signature: Signature,
    grids: Mapping[str, Axes],
) -> FunctionSamples:
    """Make up the values of an input at its sensors, of its own mean and standard deviation."""
    own = signature.axes_of(entry)
    if entry.name in grids:
        ticks = [torch.as_tensor(t) for t in grids[entry.name]]
        points = tensor_grid(ticks).to(draws.index.device).expand(draws.batch, -1, -1)
    else:
        points = _points(draws, entry.name, own, SENSORS if own else 1)
    noise = draws.normal(f"independence/{entry.name}/values", points.shape[1], entry.channels)
    return FunctionSamples(points, entry.mean + entry.std * noise)


def _fill_zero_parameters(network: nn.Module, draws: Draws) -> None:
    for name, parameter in network.named_parameters():
        if parameter.numel() and not parameter.detach().any():
            noise = draws.normal(f"independence/{name}", parameter.numel())[0]
            parameter.data = (0.1 * noise).reshape(parameter.shape).to(parameter)
