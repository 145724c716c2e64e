"""An inverse problem: what is the diffusivity, given noisy measurements?"""

# %% The truth, which nobody knows: solutions with k = 0.01, and noise of 5 %.
import piop

EQUATION = {
    "time": {"t": [0, 1]},
    "space": {"x": [0, 1]},
    "unknowns": ["u"],
    "inputs": {
        "u0": {
            "of": ["x"],
            "law": "fourier_series",
            "terms": 4,
            "amplitude": [-1, 1],
            "wavenumber": [1, 3],
        }
    },
    "equations": ["dt(u) = k*dxx(u)"],
    "initial": {"u": "u0"},
    "boundary": {"x": "periodic"},
    "save": {"t": 11, "x": 32},
}
truth = piop.Problem(name="rod", parameters={"k": 0.01}, **EQUATION)
piop.generate(truth, 4, "measured.nc", noise=0.05)

# %% The same equation with k to be found; 0.05 is where the search begins.
problem = piop.Problem(name="unknown_rod", parameters={"k": 0.05}, infer=["k"], **EQUATION)

# %% One loss of equation and data trains the field and k together.
run = problem.fit(time="12s", data="measured.nc", calibrate=0, compile=False)

# %% At the end k is estimated by the classical solver, with an interval.
found = run.evaluate(samples=4)["inferred"]["k"]
low, high = found["interval"]
print(f"k = {found['value']:.5f}, 95 % between {low:.5f} and {high:.5f}; the truth is 0.01")
