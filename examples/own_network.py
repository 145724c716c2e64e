"""A network of your own: in piop's loop, then in a loop of your own."""

# %% Any module that maps inputs at sensors, and queries, to values.
import torch
from torch import nn

import piop


class Pooled(piop.Backbone):
    """The mean of a perceptron over the sensors, times a perceptron of the query."""

    def __init__(self, signature, config=None):
        super().__init__(signature, config)
        sizes = {entry.name: len(entry.of) + entry.channels for entry in signature.inputs}
        self.sensor = nn.ModuleDict({name: nn.Linear(size, 64) for name, size in sizes.items()})
        self.query = nn.Sequential(nn.Linear(2 * len(signature.coordinates), 64), nn.Tanh())
        self.output = nn.Linear(64, signature.channels)

    def forward(self, inputs, queries):
        self.check(inputs, queries)
        length = queries.new_tensor([axis.high - axis.low for axis in self.signature.coordinates])
        angles = 2 * torch.pi * queries / length
        state = self.query(torch.cat([torch.cos(angles), torch.sin(angles)], -1))
        for name, samples in inputs.items():
            sensors = torch.cat([samples.points, samples.values], -1)
            state = state * self.sensor[name](sensors).tanh().mean(1, keepdim=True)
        return self.output(state)


# %% In piop's loop it gets hard constraints, scales, sampling, optimiser and evaluation.
problem = piop.Problem.from_file("burgers")
run = problem.fit(backbone=Pooled, time="8s", samples=0, compile=False)
evaluation = run.evaluate(samples=4)
print(f"operator {evaluation['relative_l2']['mean']:.3f}", evaluation["baselines"])

# %% In a loop of your own, the compiled residual is a function of any field.
residual = problem.residual()
network = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimiser = torch.optim.Adam(network.parameters(), 3e-3)
functions = problem.sample(1, seed=0)  # one initial condition
size = torch.tensor([2.475, 2 * torch.pi])


def field(points):
    """Points [B, N, (t, x)] to values [B, N, 1], periodic in x and exact at t = 0."""
    t, x = points[..., :1], points[..., 1:]
    features = torch.cat([t, torch.cos(x), torch.sin(x)], -1)
    return start(x) + t * network(features)


def start(x):
    """The initial condition as its Fourier series, which can be differentiated like a network."""
    waves = torch.arange(1, 4) * x
    return torch.cat([torch.cos(waves), torch.sin(waves)], -1) @ coefficients


grid = torch.arange(64)[None, :, None] * 2 * torch.pi / 64
waves = torch.arange(1, 4) * grid
basis = torch.cat([torch.cos(waves), torch.sin(waves)], -1)
coefficients = basis[0].T @ functions["u0"](grid)[0, :, None].float() / 32

for step in range(300):
    points = torch.rand(1, 256, 2) * size
    known = residual.evaluate_inputs(functions, points)
    loss = residual(field, points, known).values.square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 100 == 0:
        print(f"step {step}: mean square of the residual {loss.item():.4f}")

# %% Judge it as piop judges its own.
solution = problem.solve_reference(functions, times=[0.5, 1.0, 2.0], shape=(128,))
queries = torch.cartesian_prod(torch.tensor([0.5, 1.0, 2.0]), solution.axes[0].float())[None]
with torch.no_grad():
    predicted = field(queries).reshape(3, -1)
difference = predicted - solution.values["u"][0].float()
print(f"relative L2 {float(difference.norm() / solution.values['u'].norm()):.3f}")
