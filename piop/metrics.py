"""Errors of predictions, and of trivial baselines.

Accuracy is the relative L2 error ‖prediction − truth‖ / ‖truth‖ of each sample, sums running over
the points as they are (no quadrature weights), as in Li et al. 2021 (2010.08895), Sec. 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor


def relative_l2(prediction: Tensor, truth: Tensor) -> Tensor:
    """Relative L2 error of each sample over all its points, times and channels.

    Args:
        prediction: ``[B, …]``.
        truth: The same shape.

    Returns:
        ``[B]``; infinite where the truth is zero and the prediction is not, 0 where both are.

    Raises:
        ValueError: If the shapes differ, which broadcasting would hide.

    Example:
        >>> relative_l2(torch.tensor([[3.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([0.8000])
    """
    _same_shape(prediction, truth)
    return _ratio((prediction - truth).flatten(1).norm(dim=1), truth.flatten(1).norm(dim=1))


def relative_l2_by_time(prediction: Tensor, truth: Tensor) -> Tensor:
    """Relative L2 error of each sample at each time, against the truth at that time.

    Args:
        prediction: ``[B, T, …]``.
        truth: The same shape.

    Returns:
        ``[B, T]``, special values as in :func:`relative_l2`.

    Raises:
        ValueError: If the shapes differ or there is no time axis.
    """
    _same_shape(prediction, truth)
    if truth.ndim < 2:
        raise ValueError(f"expected [B, T, …], got shape {list(truth.shape)}")
    error, size = (v.reshape(*v.shape[:2], -1).norm(dim=2) for v in (prediction - truth, truth))
    return _ratio(error, size)


def error_over_time(prediction: Tensor, truth: Tensor) -> Tensor:
    """Error of each sample at each time, against the root mean square of the truth at all times.

    Args:
        prediction: ``[B, T, …]``.
        truth: The same shape.

    Returns:
        ``[B, T]``; their root mean square is the relative L2 error of the sample.
    """
    _same_shape(prediction, truth)
    error, size = (
        v.reshape(*v.shape[:2], -1).square().mean(2) for v in (prediction - truth, truth)
    )
    return _ratio(error.sqrt(), size.mean(1, keepdim=True).sqrt().expand_as(error))


@final
@dataclass(frozen=True)
class ErrorSummary:
    """Errors of a set of samples.

    Attributes:
        mean: Average over samples.
        std: Standard deviation over samples (n − 1 below the sum; 0 for one sample).
        per_sample: Each sample's error.
    """

    mean: float
    std: float
    per_sample: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"

    def to_dict(self) -> dict[str, float | list[float]]:
        """Return the content of ``evaluation.json``."""
        return {"mean": self.mean, "std": self.std, "per_sample": list(self.per_sample)}


def summarise(errors: Tensor) -> ErrorSummary:
    """Summarise errors ``[B]``.

    Raises:
        ValueError: If there is none, or not one number per sample.
    """
    if errors.ndim != 1 or not len(errors):
        raise ValueError(f"expected errors of at least one sample [B], got {list(errors.shape)}")
    errors = errors.detach().double().cpu()
    std = float(errors.std()) if len(errors) > 1 else 0.0
    return ErrorSummary(float(errors.mean()), std, tuple(errors.tolist()))


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's rank correlation of two quantities ``[B]`` without ties.

    Example:
        >>> rank_correlation(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.2, 0.3]))
        1.0
    """
    ranks = torch.stack([v.argsort().argsort().double() for v in (a, b)])
    return float(torch.corrcoef(ranks)[0, 1])


def trivial_baselines(truth: Tensor, initial: Tensor | None = None) -> dict[str, Tensor]:
    """Errors of predictions that know no equation; an operator that does not beat them is useless.

    Args:
        truth: Solutions ``[B, T, …]``, or ``[B, …]`` of a steady problem.
        initial: Their initial values ``[B, …]``, without the time axis, where the problem has any.

    Returns:
        Name to errors ``[B]``: ``stays at u0`` (if ``initial`` is given), ``mean of the others``
        (the average solution of the other samples; if B > 1) and ``zero``.

    Raises:
        ValueError: If ``initial`` does not have the shape of the truth at one time.
    """
    baselines = {}
    if initial is not None:
        _same_shape(initial, truth[:, 0])
        baselines["stays at u0"] = relative_l2(initial[:, None].expand_as(truth), truth)
    count = len(truth)
    if count > 1:
        others = (truth.sum(0, keepdim=True) - truth) / (count - 1)
        baselines["mean of the others"] = relative_l2(others, truth)
    baselines["zero"] = relative_l2(torch.zeros_like(truth), truth)
    return baselines


def unbeaten(errors: Tensor, baselines: dict[str, Tensor]) -> tuple[str, ...]:
    """Names of the baselines whose mean error is no larger than that of ``errors [B]``."""
    return tuple(n for n, e in baselines.items() if not float(errors.mean()) < float(e.mean()))


def _ratio(error: Tensor, size: Tensor) -> Tensor:
    return torch.where(error == 0, torch.zeros_like(error), error / size)


def _same_shape(prediction: Tensor, truth: Tensor) -> None:
    if prediction.shape != truth.shape:
        raise ValueError(
            f"prediction has shape {list(prediction.shape)}, the truth {list(truth.shape)}"
        )
