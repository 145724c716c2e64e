"""Attention of streams to sensors, summed block by block so that no stream of scores is kept."""

from piop.residual.attention.kernel import (
    AttentionOperands,
    Kernel,
    ScorePolynomials,
    choose_kernel,
)

__all__ = ["AttentionOperands", "Kernel", "ScorePolynomials", "choose_kernel"]
