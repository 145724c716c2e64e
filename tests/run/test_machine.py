from piop.run.machine import settle_machine
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig


def test_a_run_that_moves_to_the_cpu_leaves_the_gpu_kernel_behind():
    config = TrainingConfig(BudgetConfig(steps=1), MachineConfig(device="cuda", kernel="triton"))
    machine = settle_machine(config, "cpu").machine
    assert (machine.device, machine.kernel) == ("cpu", "torch")
