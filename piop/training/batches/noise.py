"""Noise on what a network sees: drawn afresh for every sample and step, at the levels of the spec.

A level is a share of the standard deviation that an input has at each of its sensors over the
samples, as in Cao 2021, eq. 23 (arXiv:2105.14995); where sensors differ from sample to sample, of
its standard deviation over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from piop.datasets import AnyDataset
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.sampling import Draws
from piop.spec.distributions import FromData
from piop.training.batches.batch import Batch, BatchSetting, Source


def noise_levels(problem: Problem) -> tuple[float, ...]:
    """Give the levels of noise that inputs are seen with; empty where nothing is said of noise."""
    found = [i.distribution.noise for i in problem.inputs if isinstance(i.distribution, FromData)]
    return max(found, key=len, default=())


def noise_scales(problem: Problem, data: AnyDataset) -> dict[str, list[float]]:
    """Measure the standard deviation of each noisy input at each sensor, or over all of them.

    Args:
        problem: Whose inputs they are.
        data: What is trained on.

    Returns:
        Input → ``[M]`` numbers, or one; none for inputs without noise.
    """
    found = {}
    for item in problem.visible_inputs:
        if isinstance(item.distribution, FromData) and any(item.distribution.noise):
            each = _same_sensors(data, item.name)
            rows = (_rows(piece.inputs[item.name], each) for piece in data.chunks())
            found[item.name] = [float(f"{v:.6g}") for v in _deviation(rows).tolist()]
    return found


def _same_sensors(data: AnyDataset, name: str) -> bool:
    first: Tensor | None = None
    for samples in data.sensor_chunks(name):
        first = samples.points[:1] if first is None else first
        alike = samples.mask is None and samples.points.shape[1] == first.shape[1]
        if not alike or bool((samples.points != first).any()):
            return False
    return True


def _rows(samples: FunctionSamples, each: bool) -> Tensor:
    """Values ``[n, M]`` of all sensors, or those of all together ``[n·M, 1]``."""
    values = samples.values[..., 0].double()
    if each:
        return values
    return (values if samples.mask is None else values[samples.mask]).reshape(-1, 1)


def _deviation(pieces: Iterable[Tensor]) -> Tensor:
    """Standard deviation ``[K]`` of the rows ``[n, K]`` of all pieces.

    Source: Chan, Golub & LeVeque 1983, eq. 2.1 (doi:10.1080/00031305.1983.10483115).
    """
    count, mean, spread = 0, torch.zeros(1).double(), torch.zeros(1).double()
    for rows in pieces:
        own = rows.mean(0)
        share = len(rows) / (count + len(rows))
        spread = spread + (rows - own).square().sum(0) + (own - mean).square() * count * share
        mean = mean + share * (own - mean)
        count += len(rows)
    return (spread / max(1, count - 1)).sqrt()


def add_noise(
    seen: Mapping[str, FunctionSamples],
    scales: Mapping[str, Sequence[float]],
    level: Tensor,
    draws: Draws,
) -> dict[str, FunctionSamples]:
    """Add independent normal noise to the values of sensors.

    Args:
        seen: What sensors say of B functions.
        scales: Standard deviations, as :func:`noise_scales` gives them.
        level: Share of them for each function ``[B]``.
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
class NoisySource(Source):
    """Batches of data with noise on the inputs, at a level drawn for each function.

    Args:
        source: Source of the batches.
        setting: What all sources share.
        levels: Levels to draw from, each as likely.
        scales: Standard deviations of the inputs.
    """

    def __init__(
        self,
        source: Source,
        setting: BatchSetting,
        levels: Sequence[float],
        scales: Mapping[str, Sequence[float]],
    ) -> None:
        self.source, self.setting, self.scales = source, setting, scales
        self.levels = torch.tensor(levels, dtype=torch.float64)
        self.part = setting.processes.part(setting.config.points.data_functions)

    def __call__(self, step: int, fraction: float) -> Batch:
        """Draw a batch and the noise of its step.

        Raises:
            ValueError: If the batch has no data.
        """
        batch = self.source(step, fraction)
        if batch.observations is None:
            raise ValueError("noise is for data, and the batch has none")
        draws = self.setting.draws(step, self.part)
        chosen = draws.integers("noise/level", 0, len(self.levels) - 1)
        level = self.levels.to(chosen.device)[chosen]
        inputs = add_noise(batch.observations.inputs, self.scales, level, draws)
        return replace(batch, observations=replace(batch.observations, inputs=inputs))
