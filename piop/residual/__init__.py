"""Residuals of symbolic equations: at points by collapsed Taylor streams, or on a grid."""

from piop.residual.attention.kernel import choose_kernel
from piop.residual.base import DerivedFunctions, Lift, Residual, ResidualValues
from piop.residual.grid import GridResidual, TensorGrid
from piop.residual.integral import IntegralResidual
from piop.residual.known_functions import GridLift, KnownField, PointwiseLift
from piop.residual.lattice import Lattice
from piop.residual.linearised import (
    LinearisedEvolution,
    LinearisedResidual,
    LinearisedSteady,
    TargetResidual,
    linearise,
)
from piop.residual.pointwise import (
    ChannelSlopes,
    Field,
    PointwiseResidual,
    compile_residual,
    evaluate_once,
    join_points,
)
from piop.residual.stream_tensor import StreamTensor

__all__ = [
    "ChannelSlopes",
    "DerivedFunctions",
    "Field",
    "GridLift",
    "GridResidual",
    "IntegralResidual",
    "KnownField",
    "Lattice",
    "Lift",
    "LinearisedEvolution",
    "LinearisedResidual",
    "LinearisedSteady",
    "PointwiseLift",
    "PointwiseResidual",
    "Residual",
    "ResidualValues",
    "StreamTensor",
    "TargetResidual",
    "TensorGrid",
    "choose_kernel",
    "compile_residual",
    "evaluate_once",
    "join_points",
    "linearise",
]
