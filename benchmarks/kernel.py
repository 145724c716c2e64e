"""Attention of three streams to M sensors, forward and backward: the Triton kernel and its twins.

Written out (rows of scores as tensors, eager and compiled), summed over blocks of sensors in plain
torch, and fused in one kernel; times as ratios in one process, and the peak memory of each.

    python benchmarks/kernel.py [--sensors 64 …] [--json]        # needs a CUDA device and Triton
    python benchmarks/kernel.py --device cpu                     # the plain ways alone
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any
from unittest import mock

import torch
from record import record
from steps.timing import Options, interleaved, peak_memory
from torch import Tensor

from piop.forms.stream_plan import plan_streams
from piop.problem import Problem
from piop.residual.attention.kernel import Kernel, missing_for_triton
from piop.residual.attention.online import online_totals
from piop.residual.compiled_step import TracedStep
from piop.residual.rules import attention as scores
from piop.residual.stream_tensor import StreamLayout, StreamTensor

FUNCTIONS, HEADS, QUERIES, KEY, VALUE = 16, 4, 256, 20, 16
SENSORS = (64, 256, 1024, 4096, 16384, 65536)


def step_of(kernel: Kernel | None, tensors: list[Tensor], compiled: bool) -> TracedStep:
    """Prepare forward and backward of attention of Burgers' three streams."""
    layout = StreamLayout.of(plan_streams(Problem.from_file("burgers").pde), kernel)

    def loss(params: list[Tensor], _: list[Tensor]) -> Any:
        query, key, value = params
        found = torch.softmax(StreamTensor(query, layout) @ key.mT, -1) @ value  # type: ignore[operator]
        return found.data.square().mean()

    with written_out():
        step = TracedStep(loss, compiled=compiled)
        step.prepare(tensors, [])
    return step


def written_out() -> Any:
    """Keep plain torch from summing over blocks of its own accord."""
    return mock.patch.dict(scores.MAX_SCORES, dict.fromkeys(scores.MAX_SCORES, math.inf))


def measure(sensors: int, options: Options) -> dict[str, float]:
    """Measure all ways at one number of sensors; one that runs out of memory is left out."""
    generator = torch.Generator().manual_seed(sensors)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(options.device) / math.sqrt(shape[-1])

    tensors = [
        draw(3, FUNCTIONS, HEADS, QUERIES, KEY),
        draw(FUNCTIONS, HEADS, sensors, KEY),
        draw(FUNCTIONS, HEADS, sensors, VALUE),
    ]
    ways: dict[str, tuple[Kernel | None, bool]] = {
        "written_out": (None, False),
        "blocks": (online_totals, False),
    }
    if options.compiled:
        ways["written_out_compiled"] = (None, True)
        ways["blocks_compiled"] = (online_totals, True)
    if options.device.type == "cuda":
        from piop.residual.attention.fused import fused_totals

        ways["triton"] = (fused_totals, False)
        if options.compiled:
            ways["triton_compiled"] = (fused_totals, True)
    runs, bytes_of = {}, {}
    with written_out():
        for name, (kernel, compiled) in ways.items():
            try:
                step = step_of(kernel, tensors, compiled)

                def run(step: TracedStep = step) -> object:
                    return step(tensors, [])

                bytes_of[name] = peak_memory(run, options.device)
                runs[name] = run
            except torch.OutOfMemoryError:
                print(f"{sensors} sensors: {name} runs out of memory", file=sys.stderr)
        seconds = interleaved(runs, options)
    least = min(seconds, key=lambda name: seconds[name] if "triton" not in name else math.inf)
    figures: dict[str, float] = {}
    for name, found in seconds.items():
        figures[f"{sensors}/{name}_ms"] = 1000 * found
        figures[f"{sensors}/{name}_peak_mib"] = bytes_of[name] / 2**20
        if name != least:
            figures[f"{sensors}/{least}_over_{name}"] = seconds[least] / found
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--sensors", nargs="+", type=int, default=list(SENSORS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true", help="print one JSON object alone")
    arguments = parser.parse_args()
    missing = missing_for_triton() if arguments.device == "cuda" else None
    if missing:
        sys.exit(f"the Triton kernel needs {missing}; --device cpu compares the plain ways")
    device = torch.device(arguments.device)
    options = Options(device, arguments.rounds, not arguments.no_compile)
    figures: dict[str, float] = {}
    for sensors in arguments.sensors:
        found = measure(sensors, options)
        figures |= found
        if not arguments.json:
            for name, value in found.items():
                print(f"{name:48} {value:10.3f}", flush=True)
    if arguments.json:
        print(json.dumps(figures))
    suffix = "gpu" if device.type == "cuda" else "cpu"
    record(f"kernel_{suffix}", " ".join(["python", *sys.argv]), {"figures": figures})


if __name__ == "__main__":
    main()
