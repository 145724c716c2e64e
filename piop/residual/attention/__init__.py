"""Attention of streams to sensors, summed block by block so that no row of scores is kept."""

from piop.residual.attention.kernel import Kernel, choose_kernel
from piop.residual.attention.program import AttentionProgram, Operands

__all__ = ["AttentionProgram", "Kernel", "Operands", "choose_kernel"]
