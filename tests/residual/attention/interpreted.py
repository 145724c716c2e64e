"""The Triton kernels against their twin; run by ``test_fused.py`` in a process of its own.

Without a CUDA device the kernels run in Triton's interpreter, which must be asked for before Triton
is imported. With one, ``pytest tests/residual/attention/interpreted.py`` runs them there.
"""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from piop.problem import Problem
from piop.residual import compile_residual
from piop.residual.attention.fused import attend, fused_totals
from piop.residual.attention.online import online_totals
from piop.residual.compiled_step import TracedStep

from .cases import PROGRAMS, SIZES, assert_equal_sums, operands

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_equal_the_obvious_sums(name, size, dtype):
    program = PROGRAMS[name]
    leaves, given = operands(program, SIZES[size], dtype=dtype, device=DEVICE)
    found = fused_totals(given, program)
    assert found.dtype == dtype
    assert_equal_sums(found, leaves, given, program, TOLERANCES[dtype])


def test_large_scores_neither_overflow_nor_lose_digits():
    program = PROGRAMS["Burgers"]
    leaves, given = operands(
        program, SIZES["several blocks"], scale=400.0, masked=False, device=DEVICE
    )
    found = fused_totals(given, program)
    assert_equal_sums(found, leaves, given, program, 1e-12)


def test_a_query_that_sees_no_sensor_spoils_no_other():
    program = PROGRAMS["Burgers"]
    leaves, given = operands(program, SIZES["small"], device=DEVICE)
    given.mask[:, :1][1] = -torch.inf
    found = fused_totals(given, program)
    assert (found[:, 1] == 0).all()
    gradients = torch.autograd.grad(found.sum(), leaves)
    assert all(torch.isfinite(g).all() for g in gradients)


def test_other_strides_and_shared_heads_change_nothing():
    program = PROGRAMS["Burgers"]
    leaves, given = operands(program, SIZES["small"], device=DEVICE)
    wide = given.key[:, :1].expand_as(given.key)
    shared = type(given)(given.query, wide, given.value, given.mask, None)
    assert wide.stride(1) == 0
    assert_equal_sums(fused_totals(shared, program), leaves, shared, program, 1e-12)


def test_the_operation_keeps_its_contract():
    """Shapes of the fake tensors, gradients and no hidden changes, by torch's own checks."""
    program = PROGRAMS["order four with coefficients"]
    _, given = operands(program, SIZES["small"], device=DEVICE)
    leaves = [x.detach().requires_grad_() for x in (given.query, given.key, given.value)]
    torch.library.opcheck(
        attend,
        (*leaves, given.mask[..., 0, :], given.coefficients, *program.encoded(), 3),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


def test_a_traced_training_step_calls_the_kernels():
    problem = Problem.from_file("burgers")
    residual = compile_residual(problem, kernel=fused_totals)
    plain = compile_residual(problem, kernel=online_totals)
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(6, 2, generator=generator, dtype=torch.float64).to(DEVICE)
    tensors = [
        torch.randn(2, 7, size, generator=generator, dtype=torch.float64).to(DEVICE)
        for size in (6, 1)
    ]
    queries = torch.rand(2, 5, 2, generator=generator, dtype=torch.float64).to(DEVICE)

    def loss_of(compiled):
        def loss(params, inputs):
            def field(q):
                scores = torch.tanh(torch.nn.functional.linear(q, first)) @ params[0].mT
                return torch.softmax(scores, -1) @ params[1]

            return compiled(field, inputs[0]).values.square().mean()

        return loss

    flat = [*tensors, queries]
    graph = make_fx(TracedStep(loss_of(residual), compiled=False)._flat(2))(flat)
    calls = [str(node.target) for node in graph.graph.nodes if "piop" in str(node.target)]
    assert calls == ["piop.attend.default", "piop.attend_backward.default"]
    true = TracedStep(loss_of(plain), compiled=False)._flat(2)(flat)
    torch.testing.assert_close(graph(flat), true, rtol=1e-10, atol=1e-12)
