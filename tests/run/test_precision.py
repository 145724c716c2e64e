"""Which precision a run uses, where, and that it says so."""

import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

from piop.cli import cli
from piop.datasets import Dataset
from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.residual import compile_residual
from piop.run import fit
from piop.run.configuration import precision_of
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.loss.statistics import distribution_statistics


def data():
    points = torch.arange(8.0).mul(0.25)[None, :, None].expand(12, -1, -1)
    values = torch.randn(12, 8, 1, generator=torch.Generator().manual_seed(0))
    axes = {"t": torch.linspace(1, 2, 3), "x": torch.arange(8.0) * 0.25}
    return Dataset(
        {"u0": FunctionSamples(points, values)}, axes, {"u": values.mT.expand(-1, 3, -1)}
    )


def outcome(heat, precision):
    """The parts of one mixed step and its gradients."""
    config = TrainingConfig(BudgetConfig(steps=1), machine=MachineConfig(precision=precision))
    config = replace(config, backbone_settings={"width": 16, "blocks": 1, "heads": 2})
    statistics = distribution_statistics(heat, compile_residual(heat), 0)
    model = build_model(heat, statistics, config)
    loss = build_objective(model, statistics, config)
    draw = build_source(model, loss, statistics, config, data())
    parts, _ = loss(draw(0, 0.0))
    parts["data"].backward()
    slopes = torch.cat([p.grad.flatten() for p in loss.parameters() if p.grad is not None])
    return parts, slopes


def test_bf16_rounds_the_data_and_leaves_the_equations_alone(heat):
    (plain, slopes), (rounded, rough) = outcome(heat, "float32"), outcome(heat, "bf16")
    assert torch.equal(plain["residual"], rounded["residual"])
    assert rounded["data"].dtype == rough.dtype == torch.float32
    difference = float((rough - slopes).norm() / slopes.norm())
    assert 1e-4 < difference < 0.1  # seven bits of mantissa: 0.004 a product
    assert not torch.equal(plain["data"], rounded["data"])
    assert rounded["data"].item() == pytest.approx(plain["data"].item(), rel=0.02)


def test_a_run_in_bf16_says_so(heat, tmp_path):
    run = fit(
        heat, steps=3, out=tmp_path / "r", data=data(), physics=False, device="cpu",
        precision="bf16", samples=1,
    )  # fmt: skip
    found = json.loads((run.path / "evaluation.json").read_text())
    assert found["precision"] == {"training": "bf16", "evaluation": "float32"}
    recorded = json.loads((run.path / "config.json").read_text())
    assert recorded["training"]["machine"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ("float16", "precision: 'float16' is not one of float64, float32, tf32, bf16"),
        ("tf32", "tf32 is how CUDA devices .* Use --precision float32"),
        ("bf16", "this run has no data: derivatives are not taken below float32"),
    ],
)
def test_a_precision_that_cannot_be_had_is_refused(heat, tmp_path, precision, message):
    with pytest.raises(UsageError, match=message):
        fit(heat, steps=1, out=tmp_path / "r", device="cpu", precision=precision)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("precision", "mode"), [("tf32", "tf32"), ("float32", "ieee")])
def test_the_mode_of_a_gpu_is_set_for_the_run_and_given_back(precision, mode):
    modes = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    before = [m.fp32_precision for m in modes]
    with (
        pytest.raises(ValueError, match="oops"),
        precision_of(MachineConfig(device="cuda", precision=precision)),
    ):
        assert [m.fp32_precision for m in modes] == [mode, mode]
        raise ValueError("oops")
    assert [m.fp32_precision for m in modes] == before


def test_on_a_cpu_the_modes_of_a_gpu_are_left_alone():
    before = torch.backends.cuda.matmul.fp32_precision
    with precision_of(MachineConfig()):
        assert torch.backends.cuda.matmul.fp32_precision == before


def test_the_command_says_which_precision_was_used(heat, tmp_path):
    (tmp_path / "spec.yaml").write_text(heat.to_yaml())
    command = ["solve", str(tmp_path / "spec.yaml"), "--steps", "1", "--out", str(tmp_path / "r")]
    found = CliRunner().invoke(cli, [*command, "--precision", "float64"])
    assert "Precision: float64\n" in found.output
