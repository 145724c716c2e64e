"""Sizes and choices of the Galerkin transformer."""

from __future__ import annotations

from dataclasses import dataclass, field

from piop.errors import UsageError
from piop.models.galerkin.attention import KINDS, NORMS

DECODERS = ("spectral", "pointwise")

PLACES = ("inputs", "decoder", "heads")

ACTIVATIONS = ("silu", "relu")


@dataclass(frozen=True)
class GalerkinForm:
    """What the published examples differ in beside sizes.

    Attributes:
        latent: Channels of the spectral decoder.
        projection: Hidden features of its last perceptron.
        places: Where coordinates join besides every head: ``inputs``, ``decoder``, or ``heads`` for
            nowhere else.
        raw: Take the grid as published: coordinates from 0 to 1 along all axes, also periodic ones,
            all points of the same weight 1/n, all axes a period for the spectral decoder. Without
            it, harmonics round a period, weights of the trapezium rule, room beyond walls.
        frequencies: Harmonics of each coordinate, where it is not raw.
        activation: Of the perceptrons in the encoder: ``silu``, or ``relu`` as published.
        eps: Added to the variance in layer norms.
        dropout: Share that training drops of attention weights and features.
        dirichlet: Answer zero on walls, as published for Darcy's flow.
        faults: Drop half of the attention weights at all times, in evaluation too, and divide
            linear attention by n after its softmax, as published code does.
    """

    latent: int = 24
    projection: int = 48
    places: str = "inputs"
    raw: bool = False
    frequencies: int = 4
    activation: str = "silu"
    eps: float = 1e-5
    dropout: float = 0.0
    dirichlet: bool = False
    faults: bool = False

    def __post_init__(self) -> None:
        for key, allowed in (("places", PLACES), ("activation", ACTIVATIONS)):
            _one_of(key, getattr(self, key), allowed)


@dataclass(frozen=True)
class GalerkinConfig:
    """Sizes and choices, all dimensionless.

    Attributes:
        width: d, features of a token.
        blocks: Encoder layers.
        heads: h; divides ``width``.
        attention: ``galerkin``, ``fourier``, ``linear`` or ``softmax``.
        norm: Where layer norms stand: ``heads``, in the attention before the products (eq. 5, 6);
            ``tokens``, after each skip, as in published code; ``tokens_eq7``, as eq. 7 has it.
        decoder: ``spectral``, along the axes of space, for smooth solutions; ``pointwise``.
        modes: Wave numbers the spectral decoder keeps along each axis, −modes … modes − 1, on the
            last axis 0 … modes − 1; 0 for 16, 6, 4 in one, two, three dimensions.
        fine: n_f, points per axis of the grid that the interpolation CNN reads. What is asked for
            elsewhere is interpolated, so the convolutions mean the same everywhere.
        coarse: n_c, tokens per axis behind the CNN; 0 for no CNN: then tokens are the points asked
            for.
        form: What published examples differ in.
    """

    width: int = 48
    blocks: int = 3
    heads: int = 2
    attention: str = "galerkin"
    norm: str = "heads"
    decoder: str = "spectral"
    modes: int = 0
    fine: int = 33
    coarse: int = 0
    form: GalerkinForm = field(default_factory=GalerkinForm)

    def __post_init__(self) -> None:
        for key, allowed in (
            ("attention", tuple(KINDS)),
            ("norm", NORMS),
            ("decoder", DECODERS),
        ):
            _one_of(key, getattr(self, key), allowed)
        if self.width % self.heads:
            raise UsageError(f"heads = {self.heads}: give a divisor of width = {self.width}")
        if self.coarse and not 4 <= self.coarse <= self.fine:
            raise UsageError(
                f"coarse = {self.coarse}: give 0 for no CNN, or 4 to fine = {self.fine}"
            )


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{key} = {value!r}: one of {', '.join(allowed)}")
