"""Residuals of symbolic equations over a field: by collapsed Taylor streams, or on a grid."""

from piop.residual.attention import choose_kernel
from piop.residual.compile import Residual, ResidualValues, compile_residual
from piop.residual.grid_field import GridResidual
from piop.residual.lift import Lift
from piop.residual.streams import Stream
from piop.residual.tensor_grid import GridLift, TensorGrid

__all__ = [
    "GridLift",
    "GridResidual",
    "Lift",
    "Residual",
    "ResidualValues",
    "Stream",
    "TensorGrid",
    "choose_kernel",
    "compile_residual",
]
