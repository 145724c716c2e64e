"""Noise on what a network sees: drawn afresh for every sample and step, at the levels of the spec.

A level is a fraction of the standard deviation that an input has at each of its sensors over the
samples, as in Cao 2021, eq. 23 (arXiv:2105.14995); where sensors differ from sample to sample, of
its standard deviation over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from piop.fields import FunctionSamples
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.sampling import Draws
from piop.training.batches.batch import Batch, BatchSetting, BatchSource


def noise_levels(problem: Problem) -> tuple[float, ...]:
    """Return the levels of noise on the inputs; empty where the spec states none."""
    found = [i.distribution.noise_levels for i in problem.inputs if i.distribution is not None]
    return max(found, key=len, default=())


def add_noise(
    seen: Inputs, scales: Mapping[str, Sequence[float]], level: Tensor, draws: Draws
) -> dict[str, FunctionSamples]:
    """Add independent normal noise to the values of sensors.

    Args:
        seen: Values of B functions at sensors.
        scales: Standard deviations, from :func:`piop.training.loss.statistics.noise_scales`.
        level: Fraction of them for each function ``[B]``.
        draws: The randomness, B samples.
    """
    found = dict(seen)
    for name, scale in scales.items():
        samples = seen[name]
        size = torch.tensor(scale, dtype=torch.float64, device=draws.index.device)
        normal = draws.normal(f"noise/{name}", samples.values.shape[1])
        noise = (level.to(size)[:, None] * size * normal)[..., None]
        found[name] = replace(samples, values=samples.values + noise.to(samples.values))
    return found


@final
class NoisySource(BatchSource):
    """Batches of data with noise on the inputs, at a level for each function.

    Args:
        source: Source of the batches, without noise.
        setting: What all sources share.
        levels: Levels to draw from, each as likely.
        scales: Standard deviations of the inputs.
    """

    def __init__(
        self,
        source: BatchSource,
        setting: BatchSetting,
        levels: Sequence[float],
        scales: Mapping[str, Sequence[float]],
    ) -> None:
        self.source, self.setting, self.levels, self.scales = source, setting, levels, scales
        self.part = setting.processes.part(setting.config.points.data_functions)

    def __call__(self, step: int, fraction: float) -> Batch:
        """See the base class.

        Raises:
            ValueError: If the batch has no data.
        """
        batch, draws = self.source(step, fraction), self.setting.draws(step, self.part)
        if batch.observations is None:
            raise ValueError("noise is for data, and the batch has none")
        chosen = draws.integers("noise/level", 0, len(self.levels) - 1)
        level = chosen.new_tensor(self.levels, dtype=torch.float64)[chosen]
        inputs = add_noise(batch.observations.inputs, self.scales, level, draws)
        return replace(batch, observations=replace(batch.observations, inputs=inputs))
