"""Attention of streams uses the kernel it is told to, and sums in blocks where scores are many."""

import math
import warnings

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from piop.errors import UsageError
from piop.residual import choose_kernel, compile_residual
from piop.residual.attention.online import online_totals
from piop.residual.compiled_step import TracedStep
from piop.residual.rules import attention as scores
from piop.residual.rules.attention import LazyScores

B, N, M, H, D = 2, 5, 7, 2, 3
T, X = sympy.symbols("t x", real=True)
U = sympy.Function("u", real=True)(T, X)
A = sympy.Function("a", real=True)(X)
EQUATIONS = {
    "Burgers": U.diff(T) + U * U.diff(X) - 0.1 * U.diff(X, 2),
    "point-dependent, order four": A * U.diff(T) + A**2 * U.diff(X, 4) - U.diff(X) ** 2,
}


def _draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


FIRST, LAST = _draw(H * D, 2, seed=1), _draw(1, 2 * H, seed=2)
KEY, VALUE = _draw(B, H, M, D, seed=3), _draw(B, H, M, 2, seed=4)
GONE = torch.zeros(B, 1, 1, M, dtype=torch.float64).masked_fill(_draw(B, 1, 1, M) > 0.8, -1e9)
SHARED = torch.ones(M, dtype=torch.bool).index_fill(0, torch.tensor([2]), False)


def _by_hand(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(D) + GONE, -1) @ v


def _in_the_dtype_of_scores(z, v):
    return torch.softmax(z + GONE.float().to(z.device, z.dtype), -1) @ v


ATTENTION = {
    "no mask": lambda q, k, v: torch.matmul(torch.softmax(q @ k.mT, -1), v),
    "mask": lambda q, k, v: torch.softmax(torch.matmul(q, k.mT) + GONE, -1) @ v,
    "mask in the dtype of scores": lambda q, k, v: _in_the_dtype_of_scores(q @ k.mT, v),
    "scaled after the product": _by_hand,
    "sdpa": F.scaled_dot_product_attention,
    "sdpa, mask of sensors": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=SHARED
    ),
    "sdpa, one batch dimension": lambda q, k, v: F.scaled_dot_product_attention(
        q[:, 0], k[:, 0], v[:, 0], attn_mask=GONE[:, 0]
    ).unsqueeze(1),
    "keys shared by the batch": lambda q, k, v: torch.softmax(q @ k[:1].mT, -1) @ v[:1, :1],
    "values that move": lambda q, k, v: (
        torch.softmax(q[..., None, :] @ k[:, :, None].mT, -1) @ (v[:, :, None] * q[..., None, :2])
    ).squeeze(-2),
    "three batch dimensions": lambda q, k, v: (
        torch.softmax(q[..., None, :] @ k[:, :, None].mT, -1) @ v[:, :, None]
    ).squeeze(-2),
    "scores used twice": lambda q, k, v: (
        torch.softmax(q @ k.mT, -1) @ v + (q @ k.mT).mean(-1, keepdim=True)
    ),
}


def _field(attention, key, value):
    def field(queries):
        q = torch.tanh(F.linear(queries, FIRST)).unflatten(-1, (H, D)).transpose(1, 2)
        out = ATTENTION[attention](q, key, value).transpose(1, 2).flatten(-2)
        return F.linear(torch.sin(out), LAST[:, : out.shape[-1]])

    return field


@pytest.fixture
def calls():
    """Count the sums that a kernel was asked for."""
    return []


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("attention", ATTENTION)
def test_a_kernel_gives_the_residual_of_nested_reverse_mode(
    attention, equation, make_problem, calls
):
    def kernel(given, program):
        calls.append(given)
        return online_totals(given, program, 3)

    problem = make_problem("tx", ["u"], [EQUATIONS[equation]], {"a": "x"})
    residual = compile_residual(problem, kernel=kernel)
    inputs = [_draw(B, N, seed=9 + i) for i in range(len(residual.input_derivatives.entries))]
    queries = _draw(B, N, 2, seed=5)
    key, value = KEY.clone().requires_grad_(), VALUE.clone().requires_grad_()
    field = _field(attention, key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = residual(field, queries, inputs).values
    slow = residual.reverse(field, queries, inputs).values
    size = 1 + slow.abs().max().item()
    torch.testing.assert_close(fast / size, slow / size, rtol=1e-10, atol=1e-10)
    slopes = [torch.autograd.grad((v / size).square().mean(), (key, value)) for v in (fast, slow)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10 * (1 + other.abs().max()))
    assert bool(calls) == (attention not in ("scaled after the product", "values that move"))


def test_many_scores_are_summed_in_blocks_and_fewer_are_not(make_problem, monkeypatch, calls):
    problem = make_problem("tx", ["u"], [EQUATIONS["Burgers"]])
    residual, queries = compile_residual(problem), _draw(B, N, 2, seed=5)
    field = _field("mask", KEY, VALUE)
    monkeypatch.setattr(
        scores, "online_totals", lambda *a: (calls.append(1), online_totals(*a, 2))[1]
    )
    whole = residual(field, queries).values
    assert not calls
    monkeypatch.setitem(scores.MAX_SCORES, "cpu", 3 * B * H * N * M - 1)
    torch.testing.assert_close(residual(field, queries).values, whole, rtol=1e-12, atol=1e-12)
    assert calls


@pytest.mark.parametrize(
    "attention", ["no mask", "mask", "sdpa", "sdpa, mask of sensors", "mask in the dtype of scores"]
)
def test_a_kernel_spares_the_scores_as_a_whole(attention, make_problem, monkeypatch):
    problem = make_problem("tx", ["u"], [EQUATIONS["Burgers"]])
    residual = compile_residual(problem, kernel=lambda g, p: online_totals(g, p, 4))
    monkeypatch.delattr(scores, "streams_times_matrix")  # multiplies all queries by all keys
    residual(_field(attention, KEY, VALUE), _draw(B, N, 2, seed=5))
    assert residual.fallback is None


def test_blocks_pass_into_a_trace(make_problem):
    problem = make_problem("tx", ["u"], [EQUATIONS["Burgers"]])
    residual = compile_residual(problem, kernel=lambda g, p: online_totals(g, p, 4))

    def loss(params, inputs):
        return residual(_field("mask", *params), inputs[0]).values.square().mean()

    step = TracedStep(loss, compiled=False)._flat(2)
    first = [KEY.clone(), VALUE.clone(), _draw(B, N, 2, seed=5)]
    graph = make_fx(step)(first)
    others = [KEY + 0.1, VALUE - 0.1, _draw(B, N, 2, seed=6)]
    torch.testing.assert_close(graph(others), step(others), rtol=1e-10, atol=1e-12)


def test_coefficients_that_are_learned_reach_no_kernel(make_problem, calls):
    problem = make_problem("tx", ["u"], [EQUATIONS["point-dependent, order four"]], {"a": "x"})
    residual = compile_residual(problem, kernel=lambda *a: calls.append(a))
    inputs = [
        _draw(B, N, seed=9 + i).requires_grad_()
        for i in range(len(residual.input_derivatives.entries))
    ]
    queries, field = _draw(B, N, 2, seed=5), _field("no mask", KEY, VALUE)
    found = residual(field, queries, inputs).values
    slow = residual.reverse(field, queries, inputs).values
    slopes = [torch.autograd.grad(v.square().mean(), inputs)[0] for v in (found, slow)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-10)
    assert not calls


def test_scores_are_written_out_for_whoever_reads_them(make_problem):
    residual = compile_residual(make_problem("tx", ["u"], [EQUATIONS["Burgers"]]))
    stream = residual.stream(_draw(B, N, 2, seed=5))
    key = _draw(B, 2, M, seed=6)
    product = stream @ key
    assert isinstance(product, LazyScores)
    assert product.shape == (B, N, M)
    torch.testing.assert_close(product.data, stream.data @ key)
    masked = product + _draw(B, 1, M)
    assert isinstance(masked, LazyScores)
    assert not isinstance(masked + _draw(B, 1, M), LazyScores)
    assert not isinstance(product + _draw(B, N, M), LazyScores)
    torch.testing.assert_close(masked.data[0], product.data[0] + _draw(B, 1, M))
    torch.testing.assert_close(masked.data[1:], product.data[1:])


def test_a_kernel_that_cannot_run_here_says_what_is_missing():
    assert choose_kernel("torch", "cpu") is None
    with pytest.raises(UsageError, match="'cuda' is not one of torch, triton"):
        choose_kernel("cuda", "cpu")
    with pytest.raises(UsageError, match="triton needs a CUDA device, and this run is on 'cpu'"):
        choose_kernel("triton", "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="finds none here"):
            choose_kernel("triton", "cuda")
