import pytest

from piop.errors import UsageError
from piop.run.configuration import move_to_device, require_graphs
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig


def test_a_run_that_moves_to_the_cpu_leaves_the_gpu_kernel_behind():
    config = TrainingConfig(
        BudgetConfig(steps=1), machine=MachineConfig(device="cuda", kernel="triton")
    )
    machine = move_to_device(config, "cpu").machine
    assert (machine.device, machine.kernel) == ("cpu", "torch")


def test_a_run_that_moves_to_the_cpu_leaves_cuda_graphs_behind():
    config = TrainingConfig(
        BudgetConfig(steps=1), machine=MachineConfig(device="cuda", cuda_graphs=True)
    )
    machine = move_to_device(config, "cpu").machine
    assert (machine.device, machine.cuda_graphs) == ("cpu", False)


def test_cuda_graphs_are_refused_where_nothing_can_be_recorded(heat, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UsageError, match=r"cuda_graphs: true .* on the CPU.*--device cuda"):
        heat.fit(steps=1, device="cpu", settings={"cuda_graphs": "true"}, compile=True, out=out)
    assert not out.exists()
    with pytest.raises(UsageError, match=r"cuda_graphs: true .*not compiled\. Use --compile"):
        require_graphs(MachineConfig(device="cuda", cuda_graphs=True))
    require_graphs(MachineConfig(device="cuda", compile=True, cuda_graphs=True))
    require_graphs(MachineConfig())
