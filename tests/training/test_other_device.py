"""The training step on a device that is not the CPU, emulated."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from piop.problem import Problem
from piop.run.configuration import configure
from piop.run.job import plan_job
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.distributed import SingleProcess
from tests.other_device import OTHER, OtherDeviceTensor, other_device

CASES: Mapping[str, tuple[str, str | None]] = {
    "Fourier series, linear part": ("heat", None),
    "residual at points": ("burgers", None),
    "random field, coefficients that vary in space": ("advection_wang", None),
    "linear inversion": ("poisson", None),
    "time windows, integral form": ("allen_cahn", None),
    "linearised evolution": ("kuramoto_sivashinsky", None),
    "linearised evolution in a box": ("shallow_water_cvit", None),
    "linearised steady problem": ("cavity_cvit", None),
    "curved domain": ("poisson_lshape", None),
    "without space": ("lotka_volterra", None),
    "waves of a system": ("schroedinger", None),
    "walls": ("diffusion_reaction", None),
    "network on a grid": ("burgers_fno", None),
    "attention without softmax": ("burgers_galerkin", None),
    "rollout": ("heat", "oformer"),
    "DeepONet": ("heat", "deeponet"),
    "IPOT": ("heat", "ipot"),
    "position attention": ("heat", "position_attention"),
}


def step_losses(job, device: str) -> list[float]:
    """Return the losses of two batches, having taken their gradients."""
    config = replace(job.config, machine=MachineConfig(device=device, precision="float64"))
    model = build_model(job.problem, job.statistics, config)
    loss = build_objective(model, job.statistics, config, data=False)
    draw = build_source(model, loss, job.statistics, config, None)
    found = []
    for step in range(2):
        parts, _ = loss(draw(step, 0.0))
        parts["loss"].backward()
        found.append(float(parts["loss"].detach()))
    gradients = [p.grad for p in model.operator.parameters() if p.grad is not None]
    assert gradients and all(g.device.type == device for g in gradients)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_same_on_another_device(name):
    spec, backbone = CASES[name]
    problem = Problem.from_file(spec)
    given = {"functions": 2}
    config = configure(problem, TrainingConfig(BudgetConfig(steps=2)), backbone, given)
    job = plan_job(problem, config, given, None, SingleProcess())
    here = step_losses(job, "cpu")
    with other_device() as device:
        there = step_losses(job, device)
    assert there == pytest.approx(here, rel=1e-9)


def test_tensors_of_both_devices_are_refused():
    with other_device() as device:
        there, here = torch.ones(2, device=device), torch.ones(2)
        assert there.device.type == OTHER
        assert (there + torch.tensor(1.0)).tolist() == [2.0, 2.0]
        assert (there + here.to(device)).cpu().tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match="is on the CPU"):
            there + here
        with pytest.raises((RuntimeError, TypeError)):
            there.numpy()


def test_gradients_on_the_other_device_have_the_values_of_the_cpu():
    with other_device() as device:
        x = torch.arange(3.0, device=device).requires_grad_()
        (x[[2, 0]] ** 2).sum().backward()
        assert isinstance(x.grad, OtherDeviceTensor)
        assert x.grad.tolist() == [0.0, 0.0, 4.0]
