"""Nested reverse mode: one backward pass through the whole graph per derivative.

``F.layer_norm`` has an explicit formula here: through torch's own (2.13) third and higher
derivatives by nested reverse mode are silently wrong, by a factor of hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from piop.forms.stream_plan import Index


def nested_derivatives(
    field: Callable[[Any], Any], queries: Tensor, wanted: Iterable[tuple[int, Index]]
) -> dict[tuple[int, Index], Tensor]:
    """Differentiate a point-wise field.

    Args:
        field: Callable on queries that gives ``[B, N, C]``; output j must depend on query j alone.
        queries: ``[B, N, D]``.
        wanted: Pairs (channel, multi-index over the D coordinates).

    Returns:
        ``[B, N]`` for every pair, in the graph of the field's parameters if gradients are on.
    """
    keep = torch.is_grad_enabled()
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), _ExplicitLayerNorm():
        leaf = queries.detach().requires_grad_()
        out = field(leaf)
        zero: Index = (0,) * queries.shape[-1]
        known: dict[tuple[int, Index], Tensor] = {
            (c, zero): out[..., c] for c in range(out.shape[-1])
        }

        def find(channel: int, index: Index) -> Tensor:
            if (channel, index) not in known:
                lower = [_shifted(index, axis, -1) for axis, n in enumerate(index) if n]
                parent = next((i for i in lower if (channel, i) in known), lower[-1])
                below = find(channel, parent)
                if not below.requires_grad:
                    below = below + 0 * leaf.sum(-1)
                (slope,) = torch.autograd.grad(
                    below.sum(), leaf, create_graph=True, materialize_grads=True
                )
                for axis in range(len(index)):
                    known.setdefault((channel, _shifted(parent, axis, 1)), slope[..., axis])
            return known[channel, index]

        found = {key: find(*key) for key in wanted}
    return found if keep else {key: v.detach() for key, v in found.items()}


class _ExplicitLayerNorm(TorchFunctionMode):
    """Replaces the one function whose higher derivatives are wrong in torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.layer_norm:
            return _layer_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    out = centred * torch.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _shifted(index: Index, axis: int, by: int) -> Index:
    return (*index[:axis], index[axis] + by, *index[axis + 1 :])
