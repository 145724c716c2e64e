"""Weights are counted, and refused where no memory holds them, before a network is built."""

import time
from dataclasses import replace

import pytest

from piop.errors import UsageError
from piop.models.registry import BACKBONES, refusal
from piop.problem import Problem
from piop.training import network_size
from piop.training.build import signature_of
from piop.training.choices import constraints_of
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.network_size import require_memory, weights_of

BURGERS = Problem.from_file("burgers")
MACHINE = MachineConfig(device="cpu", precision="float32")


def shapes(name):
    config = TrainingConfig(BudgetConfig(steps=1), backbone=name)
    return BACKBONES[name]["default"], signature_of(BURGERS, constraints_of(BURGERS, config))


@pytest.mark.parametrize("name", BACKBONES)
def test_weights_are_those_of_the_network(name):
    preset, signature = shapes(name)
    assert refusal(preset, signature) is None
    tried = 0
    for size, value in vars(preset.config).items():
        if type(value) is not int or value < 1:
            continue
        try:
            larger = replace(preset.config, **{size: 3 * value})
            parameters = [*preset.build(signature, larger).parameters()]
        except UsageError:  # heads must divide the width
            continue
        found = weights_of(preset, signature, larger, [size])
        assert found[0] == sum(p.numel() for p in parameters), size
        assert found[1] == sum(p.numel() * p.element_size() for p in parameters)
        tried += 1
    assert tried


def test_repeated_modules_of_two_kinds_multiply():
    preset, signature = shapes("pit")
    larger = replace(preset.config, blocks=9, width=256, heads=16)
    parameters = preset.build(signature, larger).parameters()
    found, _ = weights_of(preset, signature, larger, ["blocks", "width", "heads"])
    assert found == sum(p.numel() for p in parameters)


@pytest.mark.parametrize("size", ["blocks", "width"])
def test_a_network_beyond_all_memory_is_refused_at_once(size):
    preset, signature = shapes("pit")
    larger, start = replace(preset.config, **{size: 10**6}), time.process_time()
    with pytest.raises(UsageError, match=rf"{size}=1000000: .* weights, .* GiB.*Lower {size}$"):
        require_memory(preset, signature, larger, MACHINE)
    assert time.process_time() - start < 5  # building takes minutes, or all memory


def test_what_memory_holds_is_let_be(monkeypatch):
    preset, signature = shapes("pit")
    larger = replace(preset.config, blocks=1000)
    count, size = weights_of(preset, signature, larger, ["blocks"])
    for spare, refused in ((1.01, False), (0.99, True), (0.0, False)):  # not known on some systems
        memory = (0.0, 3 * size * spare)
        monkeypatch.setattr(network_size, "memory_usage", lambda device, found=memory: found)
        if refused:
            with pytest.raises(UsageError, match=f"{count:,} weights"):
                require_memory(preset, signature, larger, MACHINE)
        else:
            require_memory(preset, signature, larger, MACHINE)


def test_a_network_that_needs_its_values_is_let_be():
    preset, signature = shapes("pit")

    class Broken(preset.build):
        def __init__(self, signature, config):
            raise ValueError("no weights")

    larger = replace(preset.config, blocks=10**6)
    require_memory(replace(preset, build=Broken), signature, larger, MACHINE)
