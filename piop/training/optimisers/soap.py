"""SOAP on many parameters at once; in float64 with eigenbases that do not depend on rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import pytorch_optimizer
import torch
from torch import Tensor

DIAGONAL = 1e-4
"""Largest addition to the diagonal of a covariance, as a fraction of its trace: gradients below a
hundredth of the whole keep about the basis of the weights themselves, as in Adam."""


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

    def update_bases(self, exact: bool) -> None:
        """Improve the eigenbases by one power iteration; second moments follow their order."""
        for axis, (covariance, basis) in enumerate(zip(self.covariances, self.bases, strict=True)):
            if covariance is None or basis is None:
                continue
            product = (separate_eigenvalues(covariance) if exact else covariance) @ basis
            order = (basis * product).sum(1).argsort(dim=1, descending=True)  # [G, n]
            shape = [1] * self.square.ndim
            shape[0], shape[axis + 1] = order.shape
            self.square.copy_(torch.take_along_dim(self.square, order.view(shape), axis + 1))
            ordered = torch.take_along_dim(product, order[:, None], 2)
            basis.copy_(torch.linalg.qr(ordered)[0])


@final
class SOAP(pytorch_optimizer.SOAP):
    """SOAP, with one set of operations for all parameters of a shape.

    Steps and state are those of ``pytorch_optimizer.SOAP`` up to rounding; networks of many small
    matrices take a fraction of its time (``benchmarks/optimiser.py``).

    In float64 they are nearly the same however gradients were summed. Covariances of gradients have
    few large eigenvalues. The basis of the rest is an accident of rounding, yet Adam's step in it
    depends on it: two runs whose gradients differ by 1e-16 differ by the whole step size after two
    steps. A diagonal that rises from 0 to ``DIAGONAL`` fixes the basis.

    Source: Vyas et al. 2024 (2409.11321), algorithm 3 and sec. 4; the diagonal is ours
    (docs/distributed.md).
    """

    _stacks: list[Stack] | None = None
    _known = 0

    @staticmethod
    def get_orthogonal_matrix(mat: Any) -> list[Any]:
        """Find the eigenbases, largest eigenvalue first."""
        if not any(len(m) and m.dtype == torch.float64 for m in mat):
            return pytorch_optimizer.SOAP.get_orthogonal_matrix(mat)
        return [
            torch.linalg.eigh(separate_eigenvalues(m))[1].flip(1) if len(m) else [] for m in mat
        ]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state."""
        super().load_state_dict(dict(state_dict))
        self._stacks = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move all parameters by their gradients."""
        del closure
        (group,) = self.param_groups
        self.init_group(group)
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
            stack.update_covariances(gradients, 1 - (group["shampoo_beta"] or beta2))
            if step % group["precondition_frequency"] == 0:
                stack.update_bases(exact=stack.mean.dtype == torch.float64)

    def _stacked(self, parameters: list[Tensor]) -> list[Stack]:
        """Group the parameters that have gradients by their shapes."""
        groups: dict[Any, list[Tensor]] = {}
        for parameter in parameters:
            if parameter in self.state:
                key = tuple(parameter.shape) if parameter.ndim > 1 else "vectors"
                groups.setdefault(key, []).append(parameter)
        return [Stack(own, [self.state[p] for p in own]) for own in groups.values()]


def separate_eigenvalues(covariance: Tensor) -> Tensor:
    """Add a rising diagonal to covariances ``[…, n, n]``, which separates small eigenvalues."""
    rise = torch.linspace(0, DIAGONAL, covariance.shape[-1]).to(covariance)
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
    return covariance + torch.diag_embed(rise * trace)
