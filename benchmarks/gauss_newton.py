"""Gauss-Newton steps in the space of residuals, and least squares of the last layer.

The loss is ‖r‖², r the residuals of all points of a batch with the square roots of their fixed
weights. J, the derivatives of each residual with respect to all weights, takes one forward and one
backward pass: every point has a copy of its function's sensors of its own, so a row of the batch is
one residual, and the gradient of a linear layer at a row is the product of what enters it there and
the gradient of what leaves it.

Sources: A. Guzmán-Cordero, F. Dangel, G. Goldshlager, M. Zeinhofer 2025 (2505.12149) for
:class:`GaussNewton`; products per row: I. Goodfellow 2015 (1510.01799).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from piop.models.core.harmonic_fit import HarmonicCrossAttention
from piop.residual.stream_tensor import carries_streams
from piop.training.batches.batch import Batch, map_tensors
from piop.training.loss.objective import ResidualLoss


def spread(batch: Batch) -> Batch:
    """Make each point of a batch a function of its own: B functions with N points to BN with one.

    Args:
        batch: With as many queries for each function, no soft constraints, and no data.
    """
    if batch.equations is None or batch.conditions or batch.observations is not None:
        raise ValueError("only the equations are squares of residuals at points")
    functions, count = batch.equations.queries.shape[:2]

    def copies(tensor: Tensor) -> Tensor:
        return tensor if len(tensor) != functions else tensor.repeat_interleave(count, 0)

    points = batch.equations
    lift = None if points.lift is None else points.lift.flatten(1, 2)[:, :, None]
    rows = replace(
        points,
        queries=points.queries.flatten(0, 1)[:, None],
        input_values=tuple(v.expand(functions, count).reshape(-1, 1) for v in points.input_values),
        lift=lift,
    )
    size = None if batch.size is None else copies(batch.size)
    return replace(batch, inputs=map_tensors(copies, batch.inputs), size=size, equations=rows)


def residuals(loss: ResidualLoss, batch: Batch) -> Tensor:
    """Return r ``[B N E]``, whose squares add up to the mean square of the equations."""
    if batch.equations is None:
        raise ValueError("a batch without equations has no residuals")
    found = loss.misfits(batch, batch.equations)
    weight = torch.as_tensor(found.weight).to(found.values).expand(found.values.shape[:2])
    count = weight.numel()
    return (
        found.values * (weight * loss.config.residual_weight / count).sqrt()[..., None]
    ).flatten()


Taken = Callable[[Sequence[Tensor]], dict[nn.Parameter, Tensor]]
"""Gradients of what a layer put out → the gradient of each row ``[n, *shape]``, by parameter."""


def _data(x: Any) -> Tensor:
    """Return the streams of a tensor that carries streams; a plain tensor as it is."""
    return x.data if carries_streams(x) else x


def _linear_rows(layer: nn.Linear, entered: Any, gradient: Tensor) -> dict[nn.Parameter, Tensor]:
    """Multiply what enters a linear layer by the gradient of what leaves it, row by row."""
    if carries_streams(entered):  # [S, B, N, width]: a row is a point, and sums over streams
        data, gradient = (t.flatten(1, 2).transpose(0, 1) for t in (entered.data, gradient))
        constant = gradient[:, 0]
    else:  # [B, M, width]: a row is a function, and sums over its tokens
        data = entered.expand(len(gradient), *entered.shape[1:])
        constant = gradient.sum(1)
    found = {layer.weight: torch.bmm(gradient.mT, data.detach())}
    if layer.bias is not None:
        found[layer.bias] = constant
    return found


@contextmanager
def _recorded_linear(layer: nn.Linear, taken: list[tuple[Tensor, Taken]]) -> Iterator[None]:
    def note(_layer: nn.Module, entered: tuple[Any], left: Any) -> None:
        taken.append((_data(left), lambda g: _linear_rows(layer, entered[0], g[0])))

    hook = layer.register_forward_hook(note)
    yield
    hook.remove()


@contextmanager
def _recorded_harmonics(
    layer: HarmonicCrossAttention, taken: list[tuple[Tensor, Taken]]
) -> Iterator[None]:
    """Give every row a copy of the weights of its own, of which there are few."""

    def forward(coefficients: Tensor) -> Tensor:
        rows = len(coefficients)
        own = {}
        for parameter in layer.parameters():
            copy = parameter.detach().expand(rows, *parameter.shape).clone().requires_grad_()
            own[parameter] = copy
            taken.append((copy, lambda g, p=parameter: {p: g[0]}))
        even, odd = own[layer.even], own[layer.odd]
        mean, a, b = coefficients.split([1, even.shape[1], even.shape[1]], 1)
        rule = "bkc,bkcw->bkw"
        real = torch.einsum(rule, a, even) + torch.einsum(rule, b, odd)
        imaginary = torch.einsum(rule, b, even) - torch.einsum(rule, a, odd)
        return torch.cat([mean @ own[layer.mean], real, imaginary], 1)

    layer.forward = forward
    yield
    del layer.forward


def jacobian(
    loss: ResidualLoss, batch: Batch, layers: Iterable[nn.Module] | None = None
) -> tuple[Tensor, list[tuple[nn.Parameter, Tensor]]]:
    """Return the residuals of a batch, and the derivatives of each one.

    Args:
        loss: The loss; one equation.
        batch: Rows as :func:`spread` returns them, unless ``layers`` are applied to queries alone.
        layers: Those whose weights count; by default all of the network.

    Returns:
        r ``[n]``, and parameter → J ``[n, size]``.

    Raises:
        ValueError: If the network has weights in other layers than linear ones and harmonics.
    """
    chosen = list(loss.operator.backbone.modules() if layers is None else layers)
    chosen = [layer for layer in chosen if list(layer.parameters(recurse=False))]
    taken: list[tuple[Tensor, Taken]] = []
    with ExitStack() as stack:
        for layer in chosen:
            if isinstance(layer, HarmonicCrossAttention):
                stack.enter_context(_recorded_harmonics(layer, taken))
            elif isinstance(layer, nn.Linear):
                stack.enter_context(_recorded_linear(layer, taken))
            else:
                raise ValueError(f"no rule for gradients per residual of {type(layer).__name__}")
        r = residuals(loss, batch)
    gradients = torch.autograd.grad(r.sum(), [tensor for tensor, _ in taken])
    found: list[tuple[nn.Parameter, Tensor]] = []
    with torch.no_grad():
        for (_, rows), gradient in zip(taken, gradients, strict=True):
            found += [(p, j.reshape(len(r), -1)) for p, j in rows([gradient]).items()]
    return r.detach(), found


def move(parameters: Iterable[nn.Parameter], direction: Iterable[Tensor], rate: float) -> None:
    """Subtract ``rate`` times a direction, given as one flat tensor for each parameter."""
    with torch.no_grad():
        for parameter, step in zip(parameters, direction, strict=True):
            parameter -= rate * step.view_as(parameter)


@dataclass(frozen=True)
class GaussNewtonConfig:
    """Choices of :class:`GaussNewton`.

    Attributes:
        functions: Input functions per step.
        points: Points per function.
        damping: λ over the mean diagonal of J Jᵀ, dimensionless.
        momentum: μ.
        rate: Peak step size.
    """

    functions: int = 64
    points: int = 4
    damping: float = 1e-3
    momentum: float = 0.0
    rate: float = 1.0


class GaussNewton:
    """Moves along φ ← μφ + Jᵀ(J Jᵀ + λI)⁻¹(r − μJφ): Woodbury and momentum (SPRING).

    Args:
        loss: The loss, whose network is trained in place.
        config: λ, μ.

    Source: 2505.12149 (ENGD-W and SPRING); λ is relative to the mean diagonal of J Jᵀ here, so that
        it does not depend on the problem.
    """

    def __init__(self, loss: ResidualLoss, config: GaussNewtonConfig) -> None:
        self.loss, self.config = loss, config
        self.direction: Mapping[nn.Parameter, Tensor] = {}

    def step(self, batch: Batch, rate: float) -> float:
        """Take one step; return the loss before it."""
        r, jacobians = jacobian(self.loss, spread(batch))
        mu = self.config.momentum if self.direction else 0.0
        target, gram = r.clone(), r.new_zeros(len(r), len(r))
        for parameter, j in jacobians:
            gram.addmm_(j, j.mT)
            if mu:
                target.addmv_(j, self.direction[parameter], alpha=-mu)
        y = damped_solve(gram, target, self.config.damping)
        self.direction = {
            p: torch.mv(j.mT, y) + (mu * self.direction[p] if mu else 0.0) for p, j in jacobians
        }
        move(self.direction.keys(), self.direction.values(), rate)
        return float(r.square().sum())


def damped_solve(matrix: Tensor, right: Tensor, damping: float) -> Tensor:
    """Solve (A + λ·mean diagonal·I) x = b in float64."""
    exact = matrix.double()
    exact.diagonal().add_(damping * exact.diagonal().mean())
    factor = torch.linalg.cholesky(exact)
    return torch.cholesky_solve(right.double()[:, None], factor)[:, 0].to(right)


DAMPINGS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""λ of the last layer, over the mean diagonal of JᵀJ, the best on other points is taken."""


def solve_last_layer(
    loss: ResidualLoss, batches: Sequence[Batch], others: Sequence[Batch]
) -> float | None:
    """Solve for the weights that enter the output linearly by least squares of the residuals.

    Exact for equations that are linear in the unknown, one Gauss-Newton step for others.

    Args:
        loss: The loss, whose network is a PIT.
        batches: The residuals.
        others: The residuals by which λ is chosen; the weights stay where none lowers their sum.

    Returns:
        λ; None where the weights stay.

    Source: 2508.15394.
    """
    network: Any = loss.operator.backbone
    layers = [network.decoder[-1]]
    if network.transport is not None:
        layers.append(network.transport.answer)
    normal, right = None, None
    for batch in batches:
        r, jacobians = jacobian(loss, batch, layers)
        j = torch.cat([block for _, block in jacobians], 1).double()
        normal = j.mT @ j if normal is None else normal.addmm_(j.mT, j)
        own = j.mT @ r.double()
        right = own if right is None else right + own
    if normal is None or right is None:
        raise ValueError("least squares need at least one batch")
    parameters = [p for p, _ in jacobians]
    sizes = [p.numel() for p in parameters]

    def total() -> float:
        with torch.no_grad():
            return sum(float(residuals(loss, batch).square().sum()) for batch in others)

    present = [p.detach().clone() for p in parameters]
    best, chosen, kept = total(), None, present
    for damping in DAMPINGS:
        solution = damped_solve(normal, right, damping)
        move(parameters, [s.to(present[0]) for s in solution.split(sizes)], 1.0)
        if (found := total()) < best:
            best, chosen, kept = found, damping, [p.detach().clone() for p in parameters]
        with torch.no_grad():
            for parameter, value in zip(parameters, present, strict=True):
                parameter.copy_(value)
    with torch.no_grad():
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.copy_(value)
    return chosen


def check_jacobian(loss: ResidualLoss, batch: Batch, rows: Sequence[int]) -> float:
    """Return the largest error of rows of J, relative to the row, against plain reverse mode.

    Also checks that the residuals are those of the loss.

    Raises:
        ValueError: If they are not.
    """
    r, jacobians = jacobian(loss, spread(batch))
    usual = residuals(loss, batch)
    if not torch.allclose(usual.detach(), r, rtol=1e-3, atol=1e-5):
        raise ValueError("the residuals of rows differ from those of the batch")
    parts, _ = loss(batch)
    if abs(float(parts["residual"].detach()) / float(r.square().sum()) - 1) > 1e-4:
        raise ValueError("the squares of the residuals do not add up to those of the loss")
    worst = 0.0
    for row in rows:
        parameters = [p for p, _ in jacobians]
        plain = torch.autograd.grad(usual[row], parameters, retain_graph=True)
        mine = torch.cat([j[row] for _, j in jacobians])
        theirs = torch.cat([g.flatten() for g in plain])
        worst = max(worst, float((mine - theirs).norm() / theirs.norm()))
    return worst
