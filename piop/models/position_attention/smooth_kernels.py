"""Position-attention for physics: smooth kernels that move and widen, made of matrix products.

With the chord along periodic axes, −λD + λ·const is a product of features of the query and of the
point: −λ·chord² = (λ/2π²)(cos θ cos θ' + sin θ sin θ' − 1), and between walls −λ(x − x')² =
λ(2xx' − x'²) − λx², whose last term cancels in a softmax. So scores are one matrix product with
constant keys, and streams are cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from piop.errors import UsageError
from piop.models.core.attention import head_scores, masked_scores, split_heads
from piop.models.core.base import AxisSignature, require_choices
from piop.models.core.coordinates import CIRCUMFERENCE_SQUARED, angles
from piop.models.position_attention.attention import INVERSE_SHARPNESS, SHARPNESS, smooth_window

WIDEST = 2.0
"""√λ of the widest head at the start: e⁻¹ half an axis away."""


@dataclass(frozen=True)
class PositionAttentionConfig:
    """Sizes and choices of the default, dimensionless.

    Attributes:
        width: Features of a query and of a latent point.
        heads: H, kernels of each attention.
        blocks: Modules of the processor on the latent mesh.
        reads: Attentions of a query to the latent mesh, one after the other.
        frequencies: Sines and cosines of the time, and of axes that are not homogeneous.
        window: Quantile of the latent mesh within the smooth window of a query; 1 is global.
        sharpness: Map from parameters to λ: ``square``, ``tangent`` or ``sine_tangent``.
        content: Whether attentions after the first add self-attention's scores (Self-PiT, eq. 12).
    """

    width: int = 64
    heads: int = 4
    blocks: int = 2
    reads: int = 2
    frequencies: int = 4
    window: float = 1.0
    sharpness: str = "square"
    content: bool = False

    def __post_init__(self) -> None:
        require_choices(self, {"sharpness": SHARPNESS})
        if not 0 < self.window <= 1:
            raise UsageError(f"window = {self.window}: a quantile lies in (0, 1]")
        if self.width % self.heads:
            raise UsageError(f"width = {self.width}: give a multiple of heads = {self.heads}")


@dataclass(frozen=True)
class KernelPoints:
    """Points that are attended to.

    Attributes:
        at: Angles, radians, or positions from 0 to 1 between walls, ``[B or 1, M, d]``.
        blocked: Added to scores ``[B, 1, 1, M]``, or None.
    """

    at: Tensor
    blocked: Tensor | None = None

    @classmethod
    def of(
        cls, points: Tensor, axes: Sequence[AxisSignature], mask: Tensor | None = None
    ) -> KernelPoints:
        """Take finite points ``[B or 1, M, d]``, real where ``mask [B, M]`` is True."""
        return cls(kernel_coordinates(points, axes), masked_scores(mask, points))


def kernel_coordinates(points: Tensor, axes: Sequence[AxisSignature]) -> Tensor:
    """Scale coordinates to radians along periodic axes, and from 0 to 1 between walls."""
    columns = [
        angles(points[..., i : i + 1], [axis]) * (1.0 if axis.periodic else 1 / math.pi)
        for i, axis in enumerate(axes)
    ]
    return torch.cat(columns, -1) if columns else points


class KernelCrossAttention(nn.Module):
    """Cross position-attention in several heads, each with a kernel that the query can move.

    The kernel of a head is exp(−λ|x + s − x'|²): a control, such as the time of the query, widens
    and shifts it, as diffusion and transport do; it does not depend on contents. Even kernels do
    not distinguish left from right, so some values are weighted by the sine of the angle between
    (the distance, between walls) as well: first moments, relative like all the rest.

    Args:
        config: Sizes and choices.
        axes: The d axes, of length 1 each.
        finest: √λ of the sharpest head at the start.
        control: Features that move the kernels; 0 for fixed kernels.
        content: Features of a query whose self-attention scores are added (eq. 12); 0 for none.
        window: r² of the smooth window; None for global attention.
    """

    def __init__(
        self,
        config: PositionAttentionConfig,
        axes: Sequence[AxisSignature],
        finest: float = 32.0,
        control: int = 0,
        content: int = 0,
        window: float | None = None,
    ) -> None:
        width, heads = config.width, config.heads
        super().__init__()
        self.axes, self.heads, self.window = axes, heads, window
        self.map, inverse = SHARPNESS[config.sharpness], INVERSE_SHARPNESS[config.sharpness]
        self.depth = width // heads
        self.moments = max(1, self.depth // 4)
        first = torch.logspace(math.log2(WIDEST), math.log2(max(finest, WIDEST)), heads, base=2.0)
        self.r = nn.Parameter(inverse(first**2))
        inner = heads * (self.depth + len(axes) * self.moments)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)
        self.control = nn.Linear(control, heads * (1 + len(axes))) if control else None
        self.query = nn.Linear(content, width, bias=False) if content else None
        self.key = nn.Linear(width, width, bias=False) if content else None

    def forward(
        self,
        tokens: Tensor,
        points: KernelPoints,
        at: Tensor,
        control: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            tokens: ``[B, M, width]``.
            points: Their positions.
            at: Positions of the queries, as of :func:`kernel_coordinates`, ``[B or 1, N, d]``.
            control: ``[B or 1, N, control]``.
            state: Contents of the queries ``[B, N, content]``.

        Returns:
            ``[B, N, width]``.
        """
        sharp: Any = self.map(self.r)[:, None]
        here: Any = at[:, :, None]
        if self.control is not None and control is not None:
            moved = self.control(control).reshape(*control.shape[:2], self.heads, -1)
            sharp = sharp * torch.exp(moved[..., :1])
            here = here + moved[..., 1:]
        near, far = (coordinate_pairs(x, self.axes) for x in (here, points.at[:, :, None]))
        scores = self._scores(sharp, near, far, (at.shape[1], tokens.shape[1]))
        if self.query is not None and self.key is not None:
            query = split_heads(self.query(state), self.heads) * self.depth**-0.5
            key = split_heads(self.key(tokens), self.heads)
            scores = scores + head_scores(query, key)
        if self.window is not None:
            unmoved = coordinate_pairs(at[:, :, None], self.axes)
            scores = scores + smooth_window(self._squares(unmoved, far), self.window)
        if points.blocked is not None:
            scores = scores + points.blocked
        values = self._weighed(split_heads(self.value(tokens), self.heads), far)
        found = torch.matmul(torch.softmax(scores, -1), values.transpose(1, 2)).transpose(1, 2)
        found = self._gathered(found, near)
        return self.out(found.reshape(*found.shape[:2], -1))

    def _scores(
        self, sharp: Any, near: CoordinatePairs, far: CoordinatePairs, shape: tuple[int, int]
    ) -> Any:
        """−λD up to what cancels in a softmax: ``[B or 1, H or 1, N, M]``, N and M being given."""
        query, key = [], []
        for axis, (c, s), (first, second) in zip(self.axes, near, far, strict=True):
            if axis.periodic:
                query += [wave * (sharp * (2 / CIRCUMFERENCE_SQUARED)) for wave in (c, s)]
                key += [first, second]
            else:
                query += [c * sharp, s * (sharp * 2)]
                key += [-(second**2), second]
        if not key:
            return sharp.new_zeros(1, 1, *shape)
        return head_scores(torch.cat(query, -1), torch.cat(key, -1))

    def _squares(self, near: CoordinatePairs, far: CoordinatePairs) -> Any:
        """D of unmoved positions, by products again: ``[B or 1, 1, N, M]``."""
        ones = self.r.new_ones(1, 1)
        total: Any = 0.0
        for axis, (c, s), (first, second) in zip(self.axes, near, far, strict=True):
            pair = head_scores(torch.cat([c, s], -1), torch.cat([first, second], -1))
            if axis.periodic:
                total = total + (pair * (-2 / CIRCUMFERENCE_SQUARED) + 2 / CIRCUMFERENCE_SQUARED)
            else:  # (x − x')² with the pair 1 + x x'
                here = torch.matmul((s**2).transpose(1, 2), ones)
                total = total + (here + (second**2).permute(0, 2, 3, 1) + (pair * -2.0 + 2.0))
        return total

    def _weighed(self, values: Tensor, far: CoordinatePairs) -> Tensor:
        """Values, and some of them times either coordinate of their pair: ``[B, M, H, ·]``."""
        means, *moments = values.split([self.depth, *[self.moments] * len(far)], -1)
        weighed = [part * x for part, pair in zip(moments, far, strict=True) for x in pair]
        return torch.cat([means, *weighed], -1)

    def _gathered(self, found: Any, near: CoordinatePairs) -> Any:
        """Means and first moments, the latter relative to the query: ``[B, N, H, ·]``."""
        means, *parts = found.split([self.depth, *[self.moments] * (2 * len(near))], -1)
        pairs = zip(near, parts[::2], parts[1::2], strict=True)
        moments = [s * real - c * imaginary for (c, s), real, imaginary in pairs]
        return torch.cat([means, *moments], -1) if moments else means


CoordinatePairs = Sequence[tuple[Any, Any]]
"""Of each axis the pair (cos θ, sin θ), or (1, x) between walls, ``[B or 1, N, H or 1, 1]``."""


def coordinate_pairs(at: Any, axes: Sequence[AxisSignature]) -> CoordinatePairs:
    """Split positions ``[B or 1, N, H or 1, d]`` into pairs."""
    pairs = []
    for i, axis in enumerate(axes):
        x = at[..., i : i + 1]
        pairs.append((torch.cos(x), torch.sin(x)) if axis.periodic else (x * 0.0 + 1.0, x))
    return pairs
