"""SOAP on many parameters at once; in float64 with eigenbases that do not depend on rounding."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

DIAGONAL = 1e-4
"""Largest addition to the diagonal of a covariance, as a fraction of its trace: gradients below a
hundredth of the whole keep about the basis of the weights themselves, as in Adam."""

LONGEST = 10_000
"""Length of an axis beyond which it has no eigenbasis, whose memory goes with its square."""


class Stack:
    """Parameters of one shape, or all vectors joined to one, with the state of SOAP for all.

    The tensors of the optimiser's own state, one for each parameter, are views of those here.

    Args:
        parameters: The parameters, all of one shape of two axes or more, or vectors and numbers.
        states: The state of each: ``exp_avg``, ``exp_avg_sq``, and for each axis of a matrix its
            covariance in ``GG`` and its eigenbasis in ``Q``, empty where it has none.

    Attributes:
        mean: Running mean of the gradients ``[G, …]``; of vectors ``[numbers]``.
        square: Running mean of their squares in the eigenbases, of the same shape.
        covariances: Of the gradients along each axis ``[G, n, n]``; None for an axis without.
        bases: Their eigenbases, as columns.
    """

    def __init__(self, parameters: list[Tensor], states: list[dict[str, Any]]) -> None:
        self.parameters = parameters
        self.vectors = parameters[0].ndim < 2
        self.sizes = [p.numel() for p in parameters]
        self.mean, self.square = (
            self._joined([s[name] for s in states]) for name in ("exp_avg", "exp_avg_sq")
        )
        self.covariances, self.bases = (self._along_axes(states, name) for name in ("GG", "Q"))
        for row, state in enumerate(states):
            state["exp_avg"] = self.parts(self.mean)[row]
            state["exp_avg_sq"] = self.parts(self.square)[row]
            if not self.vectors:
                state["GG"] = [[] if c is None else c[row] for c in self.covariances]
                state["Q"] = [[] if b is None else b[row] for b in self.bases]

    def _joined(self, tensors: list[Tensor]) -> Tensor:
        if self.vectors:
            return torch.cat([t.flatten() for t in tensors])
        return torch.stack(tensors)

    def _along_axes(self, states: list[dict[str, Any]], name: str) -> list[Tensor | None]:
        if self.vectors:
            return []
        axes = range(self.parameters[0].ndim)
        each = [[state[name][axis] for state in states] for axis in axes]
        return [torch.stack(e) if len(e[0]) else None for e in each]

    def parts(self, joined: Tensor) -> list[Tensor]:
        """Split a joined tensor into one view for each parameter, of its shape."""
        if not self.vectors:
            return [*joined.unbind()]
        pieces = joined.split(self.sizes)
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters, strict=True)]

    def gradients(self) -> Tensor:
        """Join the gradients; one that is missing counts as zero."""
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        return self._joined(found)

    def project(self, values: Tensor, back: bool = False) -> Tensor:
        """Write values in the eigenbases, or back in those of the parameters."""
        for axis, basis in enumerate(self.bases):
            if basis is not None:
                moved = values.movedim(axis + 1, -1)
                flat = moved.flatten(1, -2) @ (basis.mT if back else basis)
                values = flat.view(moved.shape).movedim(-1, axis + 1)
        return values

    def update_covariances(self, gradients: Tensor, weight: float) -> None:
        """Move the covariances towards those of new gradients."""
        for axis, covariance in enumerate(self.covariances):
            if covariance is not None:
                rows = gradients.movedim(axis + 1, 1).flatten(2)
                covariance.lerp_(rows @ rows.mT, weight)

    def update_bases(self) -> None:
        """Improve the eigenbases by one power iteration; second moments follow their order."""
        for axis, (covariance, basis) in enumerate(zip(self.covariances, self.bases, strict=True)):
            if covariance is None or basis is None:
                continue
            product = separate_eigenvalues(covariance) @ basis
            order = (basis * product).sum(1).argsort(dim=1, descending=True)  # [G, n]
            shape = [1] * self.square.ndim
            shape[0], shape[axis + 1] = order.shape
            self.square.copy_(torch.take_along_dim(self.square, order.view(shape), axis + 1))
            ordered = torch.take_along_dim(product, order[:, None], 2)
            basis.copy_(torch.linalg.qr(ordered)[0])


@final
class SOAP(torch.optim.Optimizer):
    """SOAP, with one set of operations for all parameters of a shape.

    Steps and state are those of ``pytorch_optimizer.SOAP`` up to rounding; networks of many small
    matrices take a fraction of its time (``benchmarks/optimiser.py``). The first gradients find the
    eigenbases and move nothing.

    In float64 they are nearly the same however gradients were summed. Covariances of gradients have
    few large eigenvalues. The basis of the rest is an accident of rounding, yet Adam's step in it
    depends on it: two runs whose gradients differ by 1e-16 differ by the whole step size after two
    steps. A diagonal that rises from 0 to ``DIAGONAL`` fixes the basis.

    Args:
        parameters: Real parameters; vectors and numbers move as by Adam.
        lr: Step size, dimensionless.
        betas: Decay of the running means of gradients, and of their squares and covariances.
        eps: Addition to the roots of second moments.
        weight_decay: Part of the weights that is taken off per step, relative to ``lr``.
        precondition_frequency: Steps from one improvement of the eigenbases to the next.

    Source: Vyas et al. 2024 (2409.11321), algorithm 3 and sec. 4; the diagonal is ours
    (docs/distributed.md).
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.95, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        precondition_frequency: int = 10,
    ) -> None:
        choices = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        choices |= {"precondition_frequency": precondition_frequency, "step": 0}
        super().__init__(parameters, choices)
        self._stacks: list[Stack] | None = None
        self._known = 0

    # torch wraps these so that its tracer passes them by, and imports that tracer, which takes a
    # second, to do so; without compilation nothing is traced.
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state."""
        inspect.unwrap(torch.optim.Optimizer.load_state_dict)(self, dict(state_dict))
        self._stacks = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move all parameters by their gradients; give nothing."""
        del closure
        (group,) = self.param_groups
        for parameter in group["params"]:
            if parameter.grad is not None and parameter not in self.state:
                self.state[parameter] = first_state(parameter.grad, group["betas"][1])
        group["step"] += 1
        if group["step"] == 1:  # the first gradients found the eigenbases
            return
        if self._stacks is None or self._known != len(self.state):
            self._stacks, self._known = self._stacked(group["params"]), len(self.state)
        add = torch._foreach_add_  # pyright: ignore[reportPrivateImportUsage]
        multiply = torch._foreach_mul_  # pyright: ignore[reportPrivateImportUsage]
        step, (beta1, beta2) = group["step"] - 1, group["betas"]
        rate = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        for stack in self._stacks:
            gradients = stack.gradients()
            projected = stack.project(gradients)
            stack.mean.lerp_(gradients, 1 - beta1)
            stack.square.lerp_(projected.square(), 1 - beta2)
            direction = stack.project(stack.mean) / stack.square.sqrt().add_(group["eps"])
            moves = stack.parts(stack.project(direction, back=True))
            add(stack.parameters, moves, alpha=-rate)
            if group["weight_decay"]:
                multiply(stack.parameters, 1 - group["weight_decay"] * group["lr"])
            stack.update_covariances(gradients, 1 - beta2)
            if step % group["precondition_frequency"] == 0:
                stack.update_bases()

    def _stacked(self, parameters: list[Tensor]) -> list[Stack]:
        """Group the parameters that have gradients by their shapes."""
        groups: dict[Any, list[Tensor]] = {}
        for parameter in parameters:
            if parameter in self.state:
                key = tuple(parameter.shape) if parameter.ndim > 1 else "vectors"
                groups.setdefault(key, []).append(parameter)
        return [Stack(own, [self.state[p] for p in own]) for own in groups.values()]


def first_state(gradient: Tensor, decay: float) -> dict[str, Any]:
    """Return the state of a parameter after its first gradient; see :class:`Stack`."""
    covariances: list[Any] = [[]]
    if gradient.ndim > 1:
        along = [gradient.movedim(axis, 0).flatten(1) for axis in range(gradient.ndim)]
        covariances = [(1 - decay) * (r @ r.mT) if len(r) <= LONGEST else [] for r in along]
    return {
        "exp_avg": torch.zeros_like(gradient),
        "exp_avg_sq": torch.zeros_like(gradient),
        "GG": covariances,
        "Q": [eigenbasis(c) if len(c) else [] for c in covariances],
    }


def eigenbasis(covariance: Tensor) -> Tensor:
    """Return the eigenvectors of a covariance as columns, largest eigenvalue first."""
    try:
        return torch.linalg.eigh(separate_eigenvalues(covariance))[1].flip(1)
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
        # it did not converge, which depends on rounding
        return torch.linalg.eigh(covariance.double())[1].flip(1).to(covariance)


def separate_eigenvalues(covariance: Tensor) -> Tensor:
    """Add a rising diagonal to covariances ``[…, n, n]``, which separates small eigenvalues.

    Those in other precisions than float64 stay as they are.
    """
    if covariance.dtype != torch.float64:
        return covariance
    rise = torch.linspace(0, DIAGONAL, covariance.shape[-1]).to(covariance)
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
    return covariance + torch.diag_embed(rise * trace)
