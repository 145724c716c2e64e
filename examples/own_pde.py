"""A PDE of your own, stated in Python: Fisher's equation with a random rate of growth."""

# %% State it once. The words are those of the YAML; expressions are strings or SymPy's own.
import sympy

import piop

t, x = sympy.symbols("t x", real=True)
problem = piop.Problem(
    name="fisher",
    title="Spreading and growing population",
    source="Fisher 1937, The wave of advance of advantageous genes, eq. 1",
    time={"t": [0, 1]},
    space={"x": [0, 1]},
    parameters={
        "D": 0.01,
        "r": {"law": "uniform", "low": 1.0, "high": 4.0},  # a law makes it an input
    },
    unknowns=["u"],
    inputs={
        "bump": {"of": ["x"], "law": "gaussian_random_field", "tau": 6, "alpha": 6, "scale": 2e9},
    },
    equations=["dt(u) = D*dxx(u) + r*u*(1 - u)"],
    initial={"u": "0.5 + 0.3*tanh(bump)"},
    boundary={"x": "periodic"},
    save={"t": 11, "x": 64},
)

# %% See what piop makes of it: class, solver, streams, conditions.
print(problem.describe())

# %% The same problem as YAML; both have one hash.
print(piop.Problem.from_yaml(problem.to_yaml()).hash == problem.hash)

# %% The reference solver comes from the same equations, with an error estimate.
functions = problem.sample(4, seed=1)
solution = problem.solve_reference(functions)
print("reference:", tuple(solution.values["u"].shape), "error", solution.error_estimate.tolist())

# %% Train for a moment and compare.
run = problem.fit(time="15s", samples=0)
evaluation = run.evaluate(samples=8)
print(f"operator {evaluation['relative_l2']['mean']:.3f}", evaluation["baselines"])
