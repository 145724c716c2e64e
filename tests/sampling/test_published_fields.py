"""Random fields of published generators, written down again, against the laws of our specs."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.fft import idctn

from piop.problem import Problem
from piop.sampling.random_fields import gaussian_prior


@pytest.mark.parametrize(("name", "factor"), [("darcy_fno", 9), ("darcy_smooth", 1)])
def test_the_field_of_the_darcy_generator_is_our_law(name, factor, s=24):
    """Field for field, from the same normal numbers: τ^(2α−2) (−Δ + τ²)^(−α), zero mean.

    The generator of Li et al. 2021 (data_generation/darcy/GRF.m) transforms
    s τ^(α−1) (π²|k|² + τ²)^(−α/2) ξ by the orthonormal inverse cosine transform, the constant mode
    set to zero: values at s × s centres of cells. The variance is that of the stated covariance
    (their periodic fields' is not); ``darcy_fno`` leaves out the prefactor, which its threshold
    does not see.
    """
    problem = Problem.from_file(name)
    law = dataclasses.replace(problem.inputs[0].distribution, modes=s - 1)
    xi = np.random.default_rng(0).standard_normal((s, s))
    k = np.arange(s)
    size = 3 * (np.pi**2 * (k[:, None] ** 2 + k**2) + 9) ** -1.0
    spectrum = s * size * xi
    spectrum[0, 0] = 0
    theirs = torch.from_numpy(idctn(spectrum, norm="ortho"))
    prior = gaussian_prior(law, problem.space)
    ours = prior.function((prior.variance.sqrt() * torch.from_numpy(xi))[None])
    centres = (torch.arange(s, dtype=torch.float64) + 0.5) / s
    assert torch.allclose(ours.on_grid([centres, centres])[0], theirs / factor**0.5, atol=1e-12)


def test_what_the_cut_of_darcy_smooth_leaves_out():
    problem = Problem.from_file("darcy_smooth")
    law = problem.inputs[0].distribution
    kept, whole = (
        float(gaussian_prior(dataclasses.replace(law, modes=n), problem.space).variance.sum())
        for n in (law.modes, 400)
    )
    assert 1 - kept / whole == pytest.approx(0.0017, abs=1e-4)
