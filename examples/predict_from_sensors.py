"""Scattered sensors in, scattered queries out: files as the command line takes them."""

# %% Train the heat equation for a moment.
from pathlib import Path

import numpy as np

import piop

run = piop.Problem.from_file("heat").fit(time="15s", samples=0)

# %% Measurements of two rods, in CSV: each has sensors of its own, and not equally many.
rng = np.random.default_rng(3)
lines = ["sample,x,u0"]
for sample, count in enumerate((20, 28)):
    x = np.sort(rng.uniform(0, 1, count)).round(4)
    u0 = np.cos(2 * np.pi * (sample + 1) * x)
    lines += [f"{sample},{a},{b:.4f}" for a, b in zip(x, u0, strict=True)]
measured = run.path / "measured.csv"
measured.write_text("\n".join(lines) + "\n")

# %% Ask at points that lie on no grid.
asked = run.path / "asked.csv"
asked.write_text("t,x\n0.0,0.5\n0.2,0.25\n1.0,0.9\n")

# %% Read, predict, write. `piop predict RUN --input F --queries F --output F` does the same.
sensors = piop.read_sensors(measured, run.problem)
queries = piop.read_queries(asked, run.problem)
u = run.predict(sensors, queries)
output = Path(run.path) / "predicted.nc"
piop.write_prediction(output, run.problem, queries, {"u": u["u"].values})

# %% Each mode k decays as exp(-nu (2 pi k)^2 t), so we know what is right.
for sample, k in enumerate((1, 2)):
    t, x = u["t"].values[sample], u["x"].values[sample]
    exact = np.exp(-0.01 * (2 * np.pi * k) ** 2 * t) * np.cos(2 * np.pi * k * x)
    print(f"rod {sample}: predicted {u['u'].values[sample].round(2)}, exact {exact.round(2)}")
