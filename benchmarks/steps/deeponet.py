"""DeepONet on a diffusion-reaction equation: this project's step beside DeepXDE's two.

u_t = D u_xx + k u² + v(x) with D = k = 0.01 on the unit square of (t, x), as in DeepXDE's demo of
its zero coordinate shift (Leng et al. 2023, arXiv:2311.00860): 50 functions, 260 queries that all
share, branch and trunk of three layers of 128. The residual step is the forward pass, the
derivatives, the mean square of the equation's residual, and the backward pass, of the same weights
at the same points in all three; that the losses agree to six digits is checked. DeepXDE's demo also
penalises conditions, function by function; they are left out, in its favour.

Needs `pip install -e ".[benchmarks]"`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature
from piop.models.deeponet.network import DeepONet, DeepONetConfig, glorot_linear
from piop.problem import Problem
from piop.residual import compile_residual
from piop.residual.compiled_step import TracedStep
from steps.timing import Options, Run, interleaved, peak_memory

FUNCTIONS, QUERIES, SENSORS, WIDTH = 50, 260, 50, 128
DIGITS = 1e-6  # relative difference that float32 may leave between losses that are the same

SPEC = """
piop: 1
name: diffusion_reaction
time: {t: [0, 1]}
space: {x: [0, 1]}
parameters: {D: 0.01, k: 0.01}
unknowns: [u]
inputs:
  v: {of: [x], law: gaussian_random_field, matern: {smoothness: 4.5, length: 0.2, variance: 1}}
equations: [dt(u) = D*dxx(u) + k*u**2 + v]
initial: {u: 0}
boundary: {x: {dirichlet: {u: 0}}}
"""


def measure(options: Options) -> dict[str, float]:
    """Give the times of the steps and the ratios that the project is judged by."""
    inputs, queries, forcing = points(options.device)
    network = build_network().to(options.device)
    runs = piop_steps(network, inputs, queries, forcing, options)
    runs |= deepxde_steps(network, inputs, queries, forcing, options.device)
    losses = {name: float(run()) for name, run in runs.items()}
    expected = losses["piop_eager"]
    for name, loss in losses.items():
        if abs(loss - expected) > DIGITS * expected:
            raise RuntimeError(f"the loss of {name} is {loss:.9g}, that of piop {expected:.9g}")
    seconds = interleaved(runs, options)
    peaks = {name: peak_memory(run, options.device) for name, run in runs.items()}
    figures = {
        f"{theirs}_over_{ours}": seconds[theirs] / seconds[ours]
        for ours in ("piop_compiled", "piop_eager")
        if ours in seconds
        for theirs in ("deepxde_zcs", "deepxde")
    }
    figures |= {f"milliseconds_{name}": 1e3 * value for name, value in seconds.items()}
    figures |= {f"megabytes_{name}": value / 1e6 for name, value in peaks.items()}
    return {f"deeponet/{name}": value for name, value in figures.items()}


def points(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Draw smooth forcings and queries.

    Returns:
        Forcings at the sensors ``[B, M]``, queries (t, x) ``[N, 2]``, forcings there ``[B, N]``.
    """
    generator = np.random.default_rng(0)
    waves = np.arange(1, 6)
    weights = generator.normal(size=(FUNCTIONS, 5)) / waves
    queries = generator.random((QUERIES, 2))

    def force(x: np.ndarray) -> np.ndarray:
        return weights @ np.sin(np.pi * np.outer(waves, x))

    found = force(np.linspace(0, 1, SENSORS)), queries, force(queries[:, 1])
    return tuple(torch.tensor(a, dtype=torch.float32, device=device) for a in found)  # type: ignore[return-value]


@final
class GivenSensors(nn.Module):
    """Stands for the reading of inputs: DeepXDE's branch takes the values as they are."""

    features = SENSORS

    def forward(self, inputs: Mapping[str, FunctionSamples], like: Tensor) -> Tensor:
        """Give the values ``[B, M]``."""
        return inputs["v"].values[..., 0]


def build_network() -> DeepONet:
    """Build the demo's network: layers of 128, and a latent of 128."""
    axes = (AxisSignature("t", 0.0, 1.0), AxisSignature("x", 0.0, 1.0))
    torch.manual_seed(0)
    config = DeepONetConfig(width=WIDTH, layers=3, latent=WIDTH)
    network = DeepONet(Signature(axes, (InputSignature("v", ("x",), waves=17),), 1, 0), config)
    network.sensors = GivenSensors()  # type: ignore[assignment]
    network.branch[0] = glorot_linear(SENSORS, WIDTH)
    return network


def piop_steps(
    network: DeepONet, inputs: Tensor, queries: Tensor, forcing: Tensor, options: Options
) -> dict[str, Run]:
    """Prepare this project's step, eager and compiled."""
    residual = compile_residual(Problem.from_yaml(SPEC))
    names = [name for name, _ in network.named_parameters()]
    parameters = [p.detach() for p in network.parameters()]
    places = torch.linspace(0, 1, SENSORS, device=inputs.device)[None, :, None]

    def loss(values: list[Tensor], tensors: list[Tensor]) -> Tensor:
        seen, at, force = tensors
        samples = {"v": FunctionSamples(places.expand(len(seen), -1, -1), seen[..., None])}
        weights = dict(zip(names, values, strict=True))
        found = residual(lambda q: functional_call(network, weights, (samples, q)), at, [force])
        return found.values.square().mean()

    tensors = [inputs, queries[None], forcing]
    runs: dict[str, Run] = {}
    for name in ("eager", *["compiled"] * options.compiled):
        start = time.perf_counter()
        step = TracedStep(loss, compiled=name == "compiled")
        step.prepare(parameters, tensors)
        if step.eager_because is not None:
            raise RuntimeError(f"the step does not compile: {step.eager_because}")
        if name == "compiled":
            print(f"compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        runs[f"piop_{name}"] = lambda step=step: step(parameters, tensors)[0][0]
    return runs


def deepxde_steps(
    network: DeepONet, inputs: Tensor, queries: Tensor, forcing: Tensor, device: torch.device
) -> dict[str, Run]:
    """Prepare DeepXDE's step, with its zero coordinate shift and without, for the same weights.

    DeepXDE is imported here, since its import prints, and on a machine with a CUDA device makes
    that device torch's default, which is put back.
    """
    os.environ["DDE_BACKEND"] = "pytorch"
    before = torch.get_default_device()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import deepxde

        runs = {
            "deepxde_zcs": _deepxde_step(deepxde, network, inputs, queries, forcing, True),
            "deepxde": _deepxde_step(deepxde, network, inputs, queries, forcing, False),
        }
    torch.set_default_device(before)

    def on_device(run: Run) -> Run:
        def call() -> object:
            with torch.device(device):  # its steps make tensors on torch's default device
                return run()

        return call

    return {name: on_device(run) for name, run in runs.items()}


def _deepxde_step(
    dde: Any, network: DeepONet, inputs: Tensor, queries: Tensor, forcing: Tensor, shifted: bool
) -> Run:
    """Set up the demo with the points given in place of drawn ones; columns are (x, t)."""
    sizes = [WIDTH] * 3
    net = dde.nn.DeepONetCartesianProd([SENSORS, *sizes], [2, *sizes], "tanh", "Glorot normal")
    net.to(inputs.device)
    _copy_weights(network, net)

    def lazily(zcs: Any, u: Tensor, v: Tensor) -> Tensor:
        slopes = dde.zcs.LazyGrad(zcs, u)
        return slopes.compute((0, 1)) - 0.01 * slopes.compute((2, 0)) - 0.01 * u**2 - v

    def plainly(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        u_t = dde.grad.jacobian(u, x, j=1)
        return u_t - 0.01 * dde.grad.hessian(u, x, j=0) - 0.01 * u**2 - v

    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    pde = dde.data.TimePDE(domain, lazily if shifted else plainly, [], num_domain=QUERIES)
    kind = dde.zcs.PDEOperatorCartesianProd if shifted else dde.data.PDEOperatorCartesianProd
    space, sensors = dde.data.GRF(length_scale=0.2), np.linspace(0, 1, SENSORS)[:, None]
    data = kind(pde, space, sensors, FUNCTIONS, function_variables=[0])
    model = (dde.zcs.Model if shifted else dde.Model)(data, net)
    model.compile("adam", lr=1e-3, verbose=0)
    at = queries.flip(-1).cpu().numpy()
    batch = (inputs.cpu().numpy(), at), None, forcing.cpu().numpy()
    weights = list(net.parameters())

    def run() -> Tensor:
        for weight in weights:
            weight.grad = None
        loss = model.outputs_losses_train(*batch)[1].sum()
        loss.backward()
        return loss.detach()

    return run


@torch.no_grad()
def _copy_weights(network: DeepONet, net: Any) -> None:
    """Give DeepXDE's network this one's weights; its trunk reads (x, t), ours (2t − 1, 2x − 1)."""
    for layer, other in zip(network.branch, net.branch.linears, strict=True):
        other.weight.copy_(layer.weight)
        other.bias.copy_(layer.bias)
    for layer, other in zip(network.trunk, net.trunk.linears, strict=True):
        other.weight.copy_(layer.weight)
        other.bias.copy_(layer.bias)
    first = network.trunk[0]
    net.trunk.linears[0].weight.copy_(2 * first.weight.flip(-1))  # type: ignore[operator]
    net.trunk.linears[0].bias.copy_(first.bias - first.weight.sum(-1))  # type: ignore[operator]
    net.b[0].copy_(network.bias[0])
