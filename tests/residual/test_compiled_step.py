"""Compiled steps give the eager step's loss and gradients."""

import gc
import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from piop.fields import FunctionSamples
from piop.residual import compile_residual, compiled_step
from piop.residual.compiled_step import StoppedCompiling, TracedStep, compile_by_torch, trace


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.norm = nn.Linear(2, 8), nn.Linear(1, 8), nn.LayerNorm(8)
        self.out = nn.Linear(8, 1)

    def forward(self, samples, queries):
        keys = self.k(samples)
        h = self.norm(F.scaled_dot_product_attention(self.q(queries), keys, keys))
        return self.out(F.gelu(h))


class Loss(nn.Module):
    def __init__(self, residual) -> None:
        super().__init__()
        self.net, self.residual = Net().double(), residual
        self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, samples, queries):
        found = self.residual(lambda q: self.net(samples, q), queries)
        parts = found.values.square().mean(), found.derivatives["u", (0, 1)].square().mean()
        return parts[0] + 0.1 * parts[1], *parts


def module_loss(module):
    """Turn a module whose ``forward(*inputs)`` gives the loss into a function of its parameters."""
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    params = [p for p in module.parameters() if p.requires_grad]

    def loss_function(values, inputs):
        return functional_call(module, dict(zip(names, values, strict=True)), tuple(inputs))

    return loss_function, params


@pytest.fixture
def loss(burgers):
    torch.manual_seed(0)
    return Loss(compile_residual(burgers))


def _batch(n: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    samples = torch.rand(3, 4, 1, generator=generator, dtype=torch.float64)
    return [samples, torch.rand(3, n, 2, generator=generator, dtype=torch.float64)]


def test_eager_step_gives_backwards_gradients(loss) -> None:
    function, params = module_loss(loss)
    batch = _batch()
    parts, grads = TracedStep(function, compiled=False)(params, batch)
    out = loss(*batch)
    out[0].backward()
    torch.testing.assert_close(parts, tuple(v.detach() for v in out))
    for p, grad in zip(params, grads, strict=True):
        expected = torch.zeros_like(p) if p.grad is None else p.grad
        torch.testing.assert_close(grad, expected)
        assert not grad.requires_grad
    assert not parts[0].requires_grad


@pytest.mark.slow
def test_compiled_step_equals_the_eager_one(loss) -> None:
    function, params = module_loss(loss)
    batch = _batch()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the training step stays eager")
        step = TracedStep(function)
        step.prepare(params, batch)
    eager = TracedStep(function, compiled=False)
    for size in (5, 5, 7):  # another shape is compiled anew
        parts, grads = step(params, _batch(size))
        expected_parts, expected = eager(params, _batch(size))
        torch.testing.assert_close(parts, expected_parts, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(grads, expected, rtol=1e-10, atol=1e-14)
        with torch.no_grad():
            for p, grad in zip(params, grads, strict=True):
                p -= 0.1 * grad  # parameters are arguments, not constants of the graph
    assert step.eager_because is None


def test_points_that_functions_share_are_told_from_those_of_each() -> None:
    """Of a shape there are two graphs: the code of one reads a single function's points."""
    values = torch.arange(6, dtype=torch.float64).reshape(2, 3, 1)

    def loss_function(params, inputs):
        samples = FunctionSamples(inputs[0], inputs[1])
        return (params[0] * samples.distinct_points * samples.values).sum()

    step = TracedStep(loss_function)
    weights = [torch.ones(1, dtype=torch.float64)]
    for points in (values[:1].expand(2, -1, -1), values, values[:1].expand(2, -1, -1)):
        (loss,), (gradient,) = step(weights, [points, values])
        assert float(loss) == float(gradient) == float((points * values).sum())
    assert step.eager_because is None


def test_what_cannot_be_traced_stays_eager_with_one_warning() -> None:
    def branching(params, inputs):
        loss = (params[0] * inputs[0]).sum()
        return loss * 2 if loss.item() > 0 else loss

    params, inputs = [torch.ones(3)], [torch.ones(3)]
    with pytest.warns(RuntimeWarning, match="the training step stays eager"):
        step = TracedStep(branching)
        step.prepare(params, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts, grads = step(params, inputs)
    assert parts[0] == 6
    torch.testing.assert_close(grads[0], torch.full((3,), 2.0))
    assert step.eager_because is not None


def test_module_loss_takes_trainable_parameters_only(loss) -> None:
    loss.unused.requires_grad_(False)
    function, params = module_loss(loss)
    assert len(params) == len(list(loss.parameters())) - 1
    doubled = [2 * p.detach() for p in params]
    assert not torch.allclose(function(doubled, _batch())[0], function(params, _batch())[0])


class Recorder:
    """In place of torch.compile: every run writes to the memory of the one before it."""

    def __init__(self) -> None:
        self.options: list[dict] = []
        self.fixed: list[bool] = []
        self.runs = 0

    def __call__(self, graph, **options):
        self.options.append(options)
        memory: list[torch.Tensor] = []

        def recorded(*tensors):
            if not memory:
                self.fixed = [hasattr(t, "_dynamo_static_input_type") for t in tensors]
                memory.extend(torch.empty_like(t) for t in graph(*tensors))
            for place, value in zip(memory, graph(*tensors), strict=True):
                place.copy_(value)
            self.runs += 1
            return tuple(memory)

        return recorded


def test_what_cuda_graphs_give_outlives_their_next_run(loss, monkeypatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(torch, "compile", recorder)
    function, params = module_loss(loss)
    first, second = [_batch(), [t + 0.5 for t in _batch()]]
    step = TracedStep(function, graphs=True)
    eager = TracedStep(function, compiled=False)
    found = [step(params, batch) for batch in (first, second)]
    expected = [eager(params, batch) for batch in (first, second)]
    torch.testing.assert_close(found, expected)
    assert recorder.runs == 3  # once to try
    assert recorder.options == [{"fullgraph": True, "dynamic": False, "mode": "reduce-overhead"}]


def test_cuda_graphs_read_parameters_in_place_and_copy_the_batch(loss, monkeypatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(torch, "compile", recorder)
    function, params = module_loss(loss)
    TracedStep(function, graphs=True).prepare(params, _batch())
    assert recorder.fixed == [True] * len(params) + [False] * 2
    function, params = module_loss(loss)
    tensors = [t.detach() for t in (*params, *_batch())]
    compile_by_torch(trace(TracedStep(function)._flat(len(params)), tensors), tensors)(tensors)
    assert recorder.fixed == [False] * (len(params) + 2)
    assert "mode" not in recorder.options[1]


def test_torch_knows_which_tensors_of_a_cuda_graph_stay_in_place() -> None:
    seen: list[list[bool]] = []

    def look(graph, _inputs):
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        marked = [n.meta["tensor_dict"].get("_dynamo_static_input_type") for n in places]
        seen.append([mark is not None for mark in marked])
        return graph

    compile_with = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda f, **_: compile_with(f, backend=look))
        tensors = [torch.ones(2), torch.ones(2)]
        graph = trace(lambda t: (t[0] * t[1],), tensors)
        compile_by_torch(graph, tensors, fixed=1)(tensors)
    assert seen == [[True, False]]


class Compiler:
    """In place of compiling a graph: runs it as it is, after an action."""

    def __init__(self, monkeypatch, cache, action=lambda: None, factor=1.0) -> None:
        self.calls = 0

        def compile_it(graph, threads):
            self.calls += 1
            action()
            return lambda tensors: tuple(factor * t for t in graph(*tensors))

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        monkeypatch.setattr(compiled_step, "compile_graph", compile_it)

    def notes(self, cache) -> int:
        """Return how many graphs are noted as being in the cache."""
        return len(list(cache.glob("piop/*")))


def sine(params, inputs):
    return (params[0] * inputs[0]).sin().sum()


ONES = [torch.ones(3)], [torch.ones(3)]


def test_a_graph_is_noted_as_cached_once_it_gave_finite_numbers(tmp_path, monkeypatch) -> None:
    works = Compiler(monkeypatch, tmp_path)
    TracedStep(sine)(*ONES)
    assert (works.calls, works.notes(tmp_path)) == (1, 1)


def test_a_graph_that_gives_nan_or_fails_is_not_noted(tmp_path, monkeypatch) -> None:
    nan = Compiler(monkeypatch, tmp_path, factor=float("nan"))
    TracedStep(sine)(*ONES)
    assert (nan.calls, nan.notes(tmp_path)) == (1, 0)

    def fail():
        if fails.calls == 1:
            raise OSError("a damaged library")

    fails = Compiler(monkeypatch, tmp_path, fail)
    TracedStep(sine)(*ONES)
    assert (fails.calls, fails.notes(tmp_path)) == (2, 0), "that it compiled again is not cached"


def test_compiling_that_is_stopped_is_not_tried_another_way(tmp_path, monkeypatch) -> None:
    compiler = Compiler(monkeypatch, tmp_path, lambda: step.stop())
    monkeypatch.setattr(compiled_step, "compile_by_torch", lambda *_: pytest.fail("tried again"))
    step = TracedStep(sine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StoppedCompiling):
            step(*ONES)
    assert (compiler.calls, compiler.notes(tmp_path)) == (1, 0)
    assert step.eager_because is None
    step.stop()  # nothing is compiled now
    Compiler(monkeypatch, tmp_path)
    assert step(*ONES)[0][0].isfinite(), "it may go on"


@pytest.mark.parametrize("active", [True, False])
def test_python_collects_garbage_again_after_tracing(active) -> None:
    collecting = []

    def loss(params, inputs):
        collecting.append(gc.isenabled())
        return (params[0] * inputs[0]).sum()

    if not active:
        gc.disable()
    try:
        assert TracedStep(loss).foresee([torch.ones(2)], [torch.ones(2)])
        assert collecting == [False]
        assert gc.isenabled() is active
    finally:
        gc.enable()


def test_tracing_is_stopped_too() -> None:
    def traced(params, inputs):
        step.stop()
        return sine(params, inputs)

    step = TracedStep(traced)
    for action in (step.foresee, step.prepare):
        with pytest.raises(StoppedCompiling):
            action(*ONES)
    assert step.eager_because is None


NO_COMPILER = """
import os
import subprocess
import sys
import warnings
import torch
from piop.residual.compiled_step import TracedStep

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    step = TracedStep(lambda p, x: (p[0] * x[0]).sin().sum())
    for _ in range(2):
        (loss,), (gradient,) = step([torch.ones(3)], [torch.ones(3)])
assert [str(w.message).startswith("the training step stays eager") for w in found
        if w.category is RuntimeWarning] == [True], found
assert torch.allclose(gradient, torch.ones(3).cos()), gradient
"""


def test_without_a_compiler_the_step_is_eager_with_one_warning(tmp_path) -> None:
    missing = {"CXX": str(tmp_path / "g++"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", NO_COMPILER], env={**os.environ, **missing}, check=True, timeout=300
    )


FAILING = """#!/bin/sh
case "$*" in
*.cpp*) echo "$*" >> {log}; echo "fatal error: Python.h: No such file" >&2; exit 1;;
*) exec g++ "$@";;
esac
"""


def test_a_compiler_that_cannot_work_is_found_out_at_once(tmp_path) -> None:
    compiler, log = tmp_path / "g++", tmp_path / "log"
    compiler.write_text(FAILING.format(log=log))
    compiler.chmod(0o755)
    program = (
        NO_COMPILER
        + """
assert "Python.h: No such file" in step.eager_because, step.eager_because
"""
    )
    failing = {"CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **failing}, check=True, timeout=300
    )
    assert len(log.read_text().splitlines()) == 1, "it was tried again, in vain"


COMPILED = """
import torch
from piop.residual.compiled_step import TracedStep

step = TracedStep(lambda p, x: (p[0] * x[0]).sin().sum())
(loss,), (gradient,) = step([torch.ones(3)], [torch.ones(3)])
assert step.eager_because is None, step.eager_because
assert torch.allclose(gradient, torch.ones(3).cos()), gradient
"""


@pytest.mark.slow
def test_a_cache_that_a_killed_compiler_damaged_is_passed_by(tmp_path) -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", COMPILED]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, env=environment, check=True, timeout=300)
    libraries = list(tmp_path.rglob("*.main.so"))
    assert libraries
    for library in libraries:
        os.truncate(library, 100)
    subprocess.run(command, env=environment, check=True, timeout=300)
