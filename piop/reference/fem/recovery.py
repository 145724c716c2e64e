"""Unknowns that others give: their values projected onto the elements, as stresses are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu

from piop.errors import SolverError
from piop.forms.weak import WeakForm
from piop.reference.fem.pointwise import Array, PointEvaluator
from piop.reference.fem.space import Space
from piop.reference.sources import Sources


@final
class Recovery:
    """Completes solutions on one mesh by the unknowns that follow from them.

    Each is the continuous function of the elements that is nearest in L2 to what its equation says.
    Derivatives jump from triangle to triangle; these functions do not, and have values at nodes.

    Args:
        problem: The ``Problem``.
        form: Its weak form.
        space: Functions on the mesh.
    """

    def __init__(self, problem: Any, form: WeakForm, space: Space) -> None:
        self.form, self.space = form, space
        unknowns = [atom for group in form.atoms for atom in group]
        self.values = PointEvaluator(problem, list(form.recovered.values()), unknowns)
        self.factors = splu(self._mass()) if form.recovered else None

    def _mass(self) -> Any:
        """∫ v_a v_b over the shape."""
        quadrature = self.space.volume
        block = quadrature.matrix({(0, 0): np.ones(1)})
        place = tuple(
            np.broadcast_to(numbers, block.shape).ravel()
            for numbers in (quadrature.numbers[:, None], quadrature.numbers[None])
        )
        size = (self.space.count, self.space.count)
        return csc_array(coo_array((block.ravel(), place), size))

    def complete(self, sources: Sources, state: Array, samples: Sequence[int]) -> Array:
        """Add them to what was solved for.

        Args:
            sources: Inputs of B samples.
            state: ``[B, unknowns solved for, count]``.
            samples: Their numbers, for messages.

        Returns:
            ``[B, C, count]``, all channels of the problem.

        Raises:
            SolverError: If an equation gives a value that is not finite.
        """
        form, quadrature = self.form, self.space.volume
        whole = np.empty((len(state), len(form.solved) + len(form.recovered), state.shape[2]))
        whole[:, list(form.solved)] = state
        if self.factors is None:
            return whole
        known = self.values.known(sources, quadrature.points)
        fields = [f for c in range(state.shape[1]) for f in quadrature.fields(state[:, c])]
        given = [torch.from_numpy(np.ascontiguousarray(f)) for f in fields]
        for channel, value in zip(form.recovered, self.values(known, given), strict=True):
            right = np.broadcast_to(quadrature.vector({0: value}), (len(state), self.space.count))
            if (bad := ~np.isfinite(right).all(1)).any():
                raise SolverError(
                    f"sample {samples[int(bad.argmax())]}: equation {channel + 1} gives a value "
                    "that is not finite"
                )
            whole[:, channel] = self.factors.solve(np.ascontiguousarray(right.T)).T
        return whole
