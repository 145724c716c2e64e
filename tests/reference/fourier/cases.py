"""The scheme on one grid."""

import torch

from piop.reference.fourier.step_lengths import SpectralLevel
from piop.reference.fourier.time_stepping import Discretisation
from piop.reference.input_values import Sources


def stepper_of(problem, functions, sizes):
    """The stepper of a problem on a grid, and the initial spectra ``[B, states, *modes]``."""
    sources = Sources(problem, functions, torch.device("cpu"))
    discretisation = Discretisation(sources)
    stepper = discretisation.stepper(SpectralLevel(tuple(sizes), 1.0, 1, False), sources)
    return stepper, discretisation.initial(stepper.grid, sources)
