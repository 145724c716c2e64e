"""Burgers' equation in five lines: train on the equation alone, then ask how far to trust it."""

# %% The problem comes with piop; a path to your own YAML works as well.
import numpy as np

import piop

problem = piop.Problem.from_file("burgers")
print(problem.residuals[0], "= 0")

# %% Train. Fifteen seconds show the way; `time="10m"` gives a useful operator.
run = problem.fit(time="15s", seed=0, samples=0)

# %% Accuracy is the relative L2 error against a reference solution, on inputs never trained on.
evaluation = run.evaluate(samples=4)
error = evaluation["relative_l2"]
print(f"operator {error['mean']:.3f} ± {error['std']:.3f}")
for name, trivial in evaluation["baselines"].items():
    print(f"{name} {trivial:.3f}")
print(*evaluation["warnings"], sep="\n")

# %% Predict: any function, seen at any sensors, asked for anywhere.
x = np.sort(np.random.default_rng(0).uniform(0, 2 * np.pi, 64))
u = run.predict({"u0": (x, np.sin(x))}, at={"t": [0.0, 1.0, 2.0], "x": np.linspace(0, 6, 7)})
print(u["u"].isel(sample=0).round(3).values)

# %% Draw reference, prediction and error of held-out inputs; everything else is in the run folder.
run.plot("fields", run.path / "fields.png")
print(run.path / "fields.png")
