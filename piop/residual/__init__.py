"""Residuals of symbolic equations over a field, by collapsed Taylor streams."""

from piop.residual.attention import choose_kernel
from piop.residual.compile import Residual, ResidualValues, compile_residual
from piop.residual.lift import Lift
from piop.residual.streams import Stream

__all__ = ["Lift", "Residual", "ResidualValues", "Stream", "choose_kernel", "compile_residual"]
