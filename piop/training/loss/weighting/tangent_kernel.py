"""The trace of the neural tangent kernel, by gradients along random signs.

The kernel of the residuals m_i of a term is K = J·Jᵀ with J_i = ∂m_i/∂θ. Its diagonal would take
one gradient per point, but its trace is the mean of ‖Jᵀv‖² over independent random signs v, and
Jᵀv is the gradient of Σ v_i·m_i: one gradient for any number of points. The signs enter a step as
weights do, zero in an ordinary one, so that a compiled step serves for this too, and what adds up
gradients over processes adds up these.

Source: Hutchinson 1989 (10.1080/03610918908812806) for the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from piop.sampling import Draws

if TYPE_CHECKING:
    from piop.training.batches.batch import Batch

EQUATIONS, DATA = "equations", "data"
"""Names of two terms of the loss; the others are named by their conditions."""
PROBE = "probe/"
"""How the keys of signs begin, which belong to the functions of a batch, one by one."""

Part = Callable[[int], range]
"""How many samples there are in the whole batch → the numbers of those of this process."""


@dataclass(frozen=True)
class ProbedTerm:
    """One summand of the loss.

    Attributes:
        name: Of its points in a batch; several terms may make up one part.
        part: The part of the loss that it belongs to.
        width: E, number of residuals at a point.
        samples: Functions or trajectories in the whole batch.
    """

    name: str
    part: str
    width: int
    samples: int


@final
class Probes:
    """Draws the random signs of a step.

    Args:
        terms: All terms of the loss.
        seed: Of the run.
        part: Which samples are of this process.
        like: A tensor of the device and precision of the step.
    """

    def __init__(self, terms: Sequence[ProbedTerm], seed: int, part: Part, like: Tensor) -> None:
        self.terms, self.seed, self.part, self.like = tuple(terms), seed, part, like

    def zeros(self, batch: Batch) -> dict[str, Tensor]:
        """Return the zeros that enter an ordinary step."""
        return {
            PROBE + term.name: self.like.new_zeros(self._shape(term, batch)) for term in self.terms
        }

    def signs(self, batch: Batch, step: int, part: str | None = None) -> dict[str, Tensor]:
        """Draw ±√B for every residual, with B the samples of the whole batch.

        A sample's signs depend on its number and the step alone.

        Args:
            batch: The batch of the step.
            step: Its number.
            part: The part of the loss whose signs are drawn, those of all others being zero; None
                for all parts.
        """
        found = self.zeros(batch)
        for term in self.terms:
            if part not in (None, term.part):
                continue
            _, *shape = self._shape(term, batch)
            own = self.part(term.samples)
            index = torch.arange(own.start, own.stop)
            draws = Draws(self.seed, step + 1, index.to(self.like.device))
            positive = draws.uniform(PROBE + term.name, *shape) < 0.5
            sign = torch.where(positive, 1.0, -1.0).to(self.like)
            found[PROBE + term.name] = sign * term.samples**0.5
        return found

    def _shape(self, term: ProbedTerm, batch: Batch) -> tuple[int, int, int]:
        """``[B, N, E]`` with N the points of the term, of which its residuals may be fewer."""
        return len(self.part(term.samples)), queries_of(term.name, batch).shape[1], term.width


def queries_of(term: str, batch: Batch) -> Tensor:
    """Return the points of a term in a batch ``[B or 1, N, D]``.

    Raises:
        ValueError: If the batch has none.
    """
    found = batch.observations if term == DATA else batch.conditions.get(term, batch.equations)
    if found is None:
        raise ValueError(f"the batch has no points of the term {term!r}")
    return found.queries


def probe(
    weights: Mapping[str, Tensor], term: str, residuals: Tensor, weight: Tensor | float
) -> Tensor | float:
    """Return what to add to the loss so that its gradient is Jᵀv/√M, over all M points of a term.

    The squared norm of that is the trace of the term's kernel over M: the mean of its diagonal.
    Like the parts of the loss it is a mean over functions, so that microbatches add up alike.

    Args:
        weights: Those of the batch; without signs there is nothing to add.
        term: Its name.
        residuals: m ``[B, N, E]``.
        weight: Fixed weight of their squares, ``[B, N]`` or what broadcasts to that.
    """
    signs = weights.get(PROBE + term)
    if signs is None:
        return 0.0
    along = (signs[:, : residuals.shape[1]] * residuals).sum(-1)
    return (along * weight**0.5).mean() * residuals.shape[1] ** 0.5


def probe_data(weights: Mapping[str, Tensor], residuals: Tensor, known: Tensor) -> Tensor | float:
    """Return the same for data, of which not all are measured.

    Args:
        weights: Those of the batch.
        residuals: m ``[B, N, C]`` with their weights, zero where nothing was measured.
        known: How many were measured in the whole batch ``[]``.
    """
    signs = weights.get(PROBE + DATA)
    if signs is None:
        return 0.0
    return (signs.sign() * residuals).sum() / known**0.5
