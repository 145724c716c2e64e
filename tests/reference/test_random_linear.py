"""Random linear equations: every mode of the reference must follow its own exponential."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.problem import Problem
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs

WAVE = 3


@settings(max_examples=25)
@given(
    speed=st.integers(-20, 20),
    diffusion=st.integers(0, 20),
    dispersion=st.integers(-5, 5),
    hyper=st.integers(0, 3),
    growth=st.integers(-10, 10),
    places=st.permutations(["left", "right"]),
)
def test_modes_follow_their_symbol(speed, diffusion, dispersion, hyper, growth, places):
    """u_t = Σ c_j ∂ʲu gives û(t) = û(0) exp(t Σ c_j (ik)ʲ), wherever the terms stand."""
    terms = f"{speed}/10*dx(u) + {diffusion}/100*dxx(u) + {dispersion}/100*dxxx(u)"
    terms += f" - {hyper}/1000*dxxxx(u) + {growth}/10*u"
    equation = f"dt(u) = {terms}" if places[0] == "left" else f"0 = {terms} - dt(u)"
    problem = Problem(
        name="linear",
        time={"t": [0, 1]},
        space={"x": ["0", "2*pi"]},
        unknowns=["u"],
        inputs={
            "u0": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 3,
                "amplitude": [-1, 1],
                "wavenumber": [1, WAVE],
            }
        },
        equations=[equation],
        initial={"u": "u0"},
        boundary={"x": "periodic"},
    )
    functions = sample_inputs(problem, Draws(1, 0, torch.arange(2)))
    times = torch.tensor([0.3, 1.0], dtype=torch.float64)
    solution = solve_reference(problem, functions, times=times, shape=(16,), tolerance=1e-9)

    k = 1j * torch.arange(9, dtype=torch.float64)
    symbol = speed / 10 * k + diffusion / 100 * k**2 + dispersion / 100 * k**3
    symbol = symbol - hyper / 1000 * k**4 + growth / 10
    x = torch.arange(16, dtype=torch.float64) * (2 * torch.pi / 16)
    start = torch.fft.rfft(functions["u0"].on_grid([x]), norm="forward")
    exact = start[:, None] * torch.exp(symbol * times[:, None])
    found = torch.fft.rfft(solution.values["u"], norm="forward")
    kept = slice(0, WAVE + 1)
    torch.testing.assert_close(found[..., kept], exact[..., kept], rtol=1e-10, atol=1e-12)
