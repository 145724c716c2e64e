"""How wrong is this answer? Bounds of errors, unusual inputs, and answers to a tolerance."""

# %% Train for a moment, and learn from 60 more inputs how errors follow from residuals.
import numpy as np

import piop

problem = piop.Problem.from_file("reaction_diffusion")
run = problem.fit(time="12s", samples=0, calibrate=60, compile=False)

# %% Fresh inputs, which neither training nor calibration has seen, and their solutions.
functions = problem.sample(20, seed=100)
solution = problem.solve_reference(functions)

# %% The operator answers with a bound of each error, without knowing the solutions.
answer = run.predict(functions, confidence=0.9)
bound = answer["error_bound"].values
covered = answer["in_distribution"].values == 1  # one usual input in a hundred is flagged

# %% Now look at the truth: about nine answers in ten should be within their bounds.
u = solution.values["u"].numpy()
error = np.sqrt(((answer["u"].values - u) ** 2).sum((1, 2)) / (u**2).sum((1, 2)))
for true, most in sorted(zip(error[covered], bound[covered], strict=True)):
    print(f"error {true:.4f}, bound {most:.4f}" + (", exceeded" if true > most else ""))
print(f"{np.mean(error[covered] <= bound[covered]):.0%} within their bounds")

# %% A source that the operator was never trained on is named, and has no bound.
x = np.linspace(0, 1, 64, endpoint=False)
strange = run.predict({"f": (x, np.sign(np.sin(20 * np.pi * x)))}).isel(sample=0)
print(f"in the distribution: {bool(strange['in_distribution'])}, p {float(strange['p_value']):.2g}")
print("bound:", float(strange["error_bound"]))

# %% To a tolerance: where the bound exceeds it, the reference solver answers.
sure = run.predict(functions, tolerance=float(np.median(bound[covered])))
print(f"{int((sure['source'] == 1).sum())} of 20 answers by the solver")
