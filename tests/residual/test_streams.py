"""Streams and their gradients equal nested reverse mode, for every kind of layer."""

import math
import warnings

import pytest
import sympy
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from piop.residual import StreamTensor, compile_residual
from piop.residual.stream_tensor import NoRuleError, rule

B, N, W = 2, 4, 6
AGREE = {"rtol": 1e-10, "atol": 1e-10}
T, X = sympy.symbols("t x", real=True)
U = sympy.Function("u", real=True)(T, X)
A = sympy.Function("a", real=True)(X)
EQUATIONS = {
    "order one": U.diff(T) + 0.4 * U.diff(X) - U**2,
    "order two": U.diff(T) + U * U.diff(X) - 0.1 * U.diff(X, 2),
    "point-dependent": A * U.diff(T) - A**2 * U.diff(X, 2) + U.diff(T, X) * U,
    "order four": U.diff(T, 2) + U * U.diff(X, 3) + 0.3 * U.diff(X, 4) - A * U.diff(X, 2, T),
}


def _tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.1


C = _tensor(W, W, seed=1) - 0.5
K = _tensor(B, 5, W, seed=2)
V = _tensor(B, 5, W, seed=3)
ROW = _tensor(B, N, W, seed=4)
MASK = _tensor(N, 5, seed=5) > 0.4
INDEX = torch.tensor([3, 0, 2])


def heads(z):
    return z.unflatten(-1, (2, -1)).transpose(1, 2)


def merged(z):
    return z.transpose(1, 2).flatten(-2)


def own_attention(z):
    scores = torch.einsum("bnd,bmd->bnm", z, K) / math.sqrt(W)
    scores = scores - scores.amax(-1, keepdim=True)
    weights = torch.exp(scores)
    return torch.einsum("bnm,bmd->bnd", weights / weights.sum(-1, keepdim=True), V)


def distance_attention(z):
    distance = (z.unsqueeze(2) - K.unsqueeze(1)).square().sum(-1)
    return torch.softmax(-distance, -1) @ V


def self_attention_over_neighbours(z):
    near = (z.unsqueeze(-2) * K.mean(1)[:, None, None]) + K[:, None]
    return F.scaled_dot_product_attention(z.unsqueeze(-2), near, near).squeeze(-2)


SMOOTH = {
    "tanh": torch.tanh,
    "sin": torch.sin,
    "cos": torch.cos,
    "exp": torch.exp,
    "log": lambda z: torch.log(2 + z),
    "log1p": lambda z: torch.log1p(z * z),
    "expm1": torch.expm1,
    "sqrt": lambda z: torch.sqrt(2 + z),
    "rsqrt": lambda z: torch.rsqrt(2 + z),
    "reciprocal": lambda z: torch.reciprocal(2 + z),
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda z: F.gelu(z, approximate="tanh"),
    "softplus": lambda z: F.softplus(z, beta=2.0),
    "erf": torch.erf,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "square": torch.square,
    "pow 0": lambda z: z**0 * torch.sin(z),
    "pow 3": lambda z: z**3,
    "pow 2.5": lambda z: (2 + z) ** 2.5,
    "2 ** z": lambda z: 2.0**z,
    "z ** z": lambda z: (2 + z) ** z.flip(-1),
    "pow tensor": lambda z: (2 + z) ** torch.tensor(1.5, dtype=torch.float64),
    "elu": F.elu,
    "relu": torch.relu,
    "leaky relu": F.leaky_relu,
    "abs": torch.abs,
    "clamp": lambda z: torch.clamp(torch.sin(z), -0.2, 0.3),
    "where": lambda z: torch.where(z > 0.2, torch.sin(z), z**2),
    "maximum": lambda z: torch.maximum(torch.sin(z), 0.3 * z),
    "minimum": lambda z: torch.minimum(ROW, z * z),
    "masked fill": lambda z: z.masked_fill(z < 0, 0.5) * z,
    "remainder": lambda z: torch.sin(torch.remainder(3 * z - 5, 1.0)),
    "fmod": lambda z: torch.sin(torch.fmod(3 * z - 5, 1.0)),
}
ARITHMETIC = {
    "constants": lambda z: (3 - z) * ROW / 2 - (-z) + ROW - 0.5 * z,
    "broadcast": lambda z: z * z.mean(-1, keepdim=True) + z.sum(-1, keepdim=True) + ROW[:1, :1],
    "widen by a constant": lambda z: z.select(-1, 0).unsqueeze(-1) * ROW + ROW[..., :1],
    "mul": lambda z: torch.sin(z) * z * z.flip(-1),
    "div": lambda z: torch.sin(z) / (2 + z * z),
    "constant over stream": lambda z: ROW / (2 + z) + 1 / (3 + z),
    "add alpha": lambda z: torch.add(z, z * z, alpha=0.3) - torch.sub(ROW, z, alpha=2),
    "addcmul, lerp": lambda z: torch.addcmul(z, z, ROW, value=0.2) + torch.lerp(z, z * z, 0.3),
}
LINEAR = {
    "linear": lambda z: F.linear(torch.sin(z), C, ROW[0, 0]),
    "matmul": lambda z: torch.sin(z) @ C,
    "matmul from the left": lambda z: (C @ torch.sin(z).mT).mT,
    "batched matmul": lambda z: torch.tanh(z @ K.mT) @ V,
    "vector": lambda z: (z @ C[0]).unsqueeze(-1) * z,
    "bmm": lambda z: torch.bmm(torch.sin(z), K.mT),
    "stream by stream": lambda z: (
        z.unsqueeze(-1) * z.unsqueeze(-2) @ torch.sin(z).unsqueeze(-1)
    ).squeeze(-1),
    "einsum": lambda z: torch.einsum("bnd,df,bmf->bnm", torch.sin(z), C, K),
    "einsum of streams": lambda z: torch.einsum("bnd,bne->bnde", z, torch.sin(z)).flatten(-2),
}
REDUCE = {
    "sum": lambda z: torch.sin(z).sum(-1, keepdim=True),
    "mean": lambda z: z * torch.sin(z).mean(dim=-1).unsqueeze(-1),
    "var": lambda z: z.var(-1, keepdim=True) + z.var(-1, correction=0, keepdim=True),
    "std": lambda z: torch.sin(z).std(-1, keepdim=True),
    "norm": lambda z: torch.linalg.vector_norm(z, dim=-1, keepdim=True),
    "logsumexp": lambda z: torch.logsumexp(torch.sin(z), -1, keepdim=True),
    "amax, amin": lambda z: torch.sin(z).amax(-1, keepdim=True) * z.amin(-1, keepdim=True),
    "cumsum": lambda z: torch.cumsum(torch.sin(z), -1),
}
NORMAL = {
    "layer norm": lambda z: F.layer_norm(torch.sin(z), (W,), C[0], C[1]),
    "rms norm": lambda z: F.rms_norm(torch.sin(z), (W,), C[0], 1e-3),
    "group norm": lambda z: F.group_norm(z.flatten(0, 1), 2, C[0], C[1]).unflatten(0, (B, N)),
    "normalize": lambda z: F.normalize(z, dim=-1),
    "softmax": lambda z: torch.softmax(3 * z, -1),
    "log softmax": lambda z: F.log_softmax(3 * z, -1),
    "dropout in evaluation": lambda z: F.dropout(torch.sin(z), 0.5, training=False),
}
ATTENTION = {
    "sdpa": lambda z: merged(F.scaled_dot_product_attention(heads(z), heads(K), heads(V))),
    "sdpa, mask": lambda z: F.scaled_dot_product_attention(z, K, V, attn_mask=MASK),
    "sdpa, bias": lambda z: F.scaled_dot_product_attention(
        z, K, V, attn_mask=MASK * 1.0, scale=2.0
    ),
    "sdpa, keys that move": self_attention_over_neighbours,
    "by hand": own_attention,
    "by distance": distance_attention,
}
SHAPE = {
    "reshape": lambda z: torch.sin(z).reshape(B * N, W).view(B, N, W),
    "permute": lambda z: z.permute(2, 0, 1).sin().movedim(0, -1),
    "transpose": lambda z: z.transpose(0, 1).mT.mT.transpose(1, 0).swapaxes(0, 2).swapaxes(2, 0),
    "slices": lambda z: torch.sin(z[..., 1:3]) * z[:, :, ::2][..., :2] + z[..., None, 0],
    "integers and None": lambda z: (
        z[..., 1, None].sin() + z[:, None, :, 2].squeeze(1).unsqueeze(-1)
    ),
    "index by tensor": lambda z: torch.sin(z)[..., INDEX],
    "index select": lambda z: torch.sin(z).index_select(-1, INDEX),
    "gather": lambda z: torch.sin(z).gather(-1, INDEX.expand(B, N, 3)),
    "take along": lambda z: torch.take_along_dim(torch.sin(z), INDEX.expand(B, N, 3), -1),
    "cat": lambda z: torch.cat([torch.sin(z), ROW, z * z], -1),
    "cat along points": lambda z: torch.cat([z[:, :2].sin(), z[:, 2:] * z[:, 2:]], 1),
    "stack": lambda z: torch.stack([torch.sin(z), ROW, z * z], -1).flatten(-2),
    "split, chunk": lambda z: torch.cat([*z.sin().split([2, 4], -1)[::-1], *z.chunk(2, -1)], -1),
    "unbind": lambda z: torch.stack(
        [a * b for a, b in zip(z.unbind(-1), ROW.unbind(-1), strict=True)], -1
    ),
    "expand, repeat": lambda z: z[..., :1].expand(-1, -1, 3).repeat(1, 1, 2) * z.sin(),
    "repeat interleave": lambda z: z.repeat_interleave(2, dim=-1).sin(),
    "flip, roll": lambda z: z.flip(-1).sin() * z.roll(1, -1),
    "narrow, select": lambda z: z.narrow(-1, 1, 2).sin() + z.select(-1, 0).unsqueeze(-1),
    "squeeze": lambda z: z.unsqueeze(1).squeeze(1).unsqueeze(-1).squeeze().sin(),
    "expand as": lambda z: z[..., :1].expand_as(z) * z.reshape_as(ROW),
    "tensor split": lambda z: torch.cat(z.sin().tensor_split(4, -1)[::-1], -1),
    "T": lambda z: (z.sin().flatten(0, 1).T.T @ C).t().t().reshape(B, N, W),
    "casts": lambda z: z.to(torch.float64).double().contiguous().clone().type_as(z).sin(),
    "detach": lambda z: z * 2 + torch.zeros_like(z) + torch.ones_like(z) * z.new_ones(W),
}
LAYERS = SMOOTH | ARITHMETIC | LINEAR | REDUCE | NORMAL | ATTENTION | SHAPE


def _residual(make_problem, equation):
    problem = make_problem("tx", ["u"], [EQUATIONS[equation]], {"a": "x"})
    residual = compile_residual(problem)
    count = len(residual.input_derivatives.entries)
    return residual, [_tensor(B, N, seed=10 + i) for i in range(count)]


def _assert_equal_to_nested(residual, field, queries, inputs, parameter) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = residual(field, queries, inputs)
    nested = residual.reverse(field, queries, inputs)
    scale = max(1.0, *(v.abs().max().item() for v in nested.derivatives.values()))
    torch.testing.assert_close(found.values / scale, nested.values / scale, **AGREE)
    slopes = [
        torch.autograd.grad((v.values / scale).square().mean(), parameter)[0]
        for v in (found, nested)
    ]
    size = max(1.0, slopes[1].abs().max().item())
    torch.testing.assert_close(slopes[0] / size, slopes[1] / size, **AGREE)
    for key in found.derivatives.keys() & nested.derivatives.keys():
        torch.testing.assert_close(
            found.derivatives[key] / scale, nested.derivatives[key] / scale, **AGREE
        )


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_nested_reverse_mode(name, equation, make_problem) -> None:
    residual, inputs = _residual(make_problem, equation)
    queries = _tensor(B, N, 2, seed=7)
    first, last = (_tensor(W, 2, seed=8) - 0.5).requires_grad_(), _tensor(1, 64, seed=9) - 0.5

    def field(q):
        out = LAYERS[name](F.linear(q, first))
        return F.linear(torch.sin(out), last[:, : out.shape[-1]])

    _assert_equal_to_nested(residual, field, queries, inputs, first)


MODULES = {
    "mlp": lambda: nn.Sequential(nn.Linear(W, 8), nn.SiLU(), nn.Dropout(0.0), nn.Linear(8, W)),
    "layer norm": lambda: nn.LayerNorm(W),
    "softmax": lambda: nn.Softmax(-1),
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "rms norm": lambda: nn.RMSNorm(W),
    "softplus": nn.Softplus,
    "flatten": lambda: nn.Sequential(nn.Unflatten(-1, (2, 3)), nn.Flatten(-2)),
    "bilinear gate": lambda: _Gate(),
    "attention": lambda: _Attention(),
}


class _Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, z):
        return self.a(z) * torch.sigmoid(self.b(z)) + z


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(W, W), nn.Linear(W, W), nn.Linear(W, W)

    def forward(self, z):
        q, k, v = heads(self.q(z)), heads(self.k(K)), heads(self.v(K))
        return z + merged(F.scaled_dot_product_attention(q, k, v))


@settings(max_examples=25)
@given(
    names=st.lists(st.sampled_from(sorted(MODULES)), min_size=1, max_size=4),
    equation=st.sampled_from(sorted(EQUATIONS)),
    seed=st.integers(0, 99),
)
def test_random_network_equals_nested_reverse_mode(names, equation, seed, make_problem) -> None:
    residual, inputs = _residual(make_problem, equation)
    torch.manual_seed(seed)
    middle = [MODULES[n]() for n in names]
    net = nn.Sequential(nn.Linear(2, W), nn.Tanh(), *middle, nn.Linear(W, 1)).double()
    net[0].weight.data += 1.0  # far from the point where every feature is equal
    queries = _tensor(B, N, 2, seed=seed)
    _assert_equal_to_nested(residual, net, queries, inputs, net[0].weight)


REFUSED = {
    "Python branch": lambda z: z if z.sum() > 0 or z else -z,
    "step": torch.sign,
    "whole sum": lambda z: z.sum() * z,
    "rounding division": lambda z: torch.div(z, 2.0, rounding_mode="floor"),
    "causal attention": lambda z: F.scaled_dot_product_attention(z, K, V, is_causal=True),
    "weights from queries": lambda z: F.linear(ROW, z[0, :, :]),
    "ellipsis in einsum": lambda z: torch.einsum("...d->...", z),
    "vector from the left": lambda z: C[0, :N] @ z,
    "scattered index": lambda z: z[torch.tensor([0]), :, torch.tensor([0])],
    "index of no dimensions": lambda z: z[torch.tensor(0)],
    "condition that is a stream": lambda z: torch.where(z, z, z),
    "view as dtype": lambda z: z.view(torch.int64),
    "repeat without a dimension": lambda z: z.repeat_interleave(2),
    "norm of order one": lambda z: torch.linalg.vector_norm(z, ord=1, dim=-1),
    "normalize of order one": lambda z: F.normalize(z, p=1.0),
    "group norm over queries": lambda z: F.group_norm(z, 2),
    "amax over two": lambda z: z.amax((1, 2)),
    "remainder of a number": lambda z: torch.remainder(torch.ones(1), z),
    "assignment": lambda z: z.__setitem__(0, 0.0),
    "property": lambda z: z.imag,
    "unknown function": torch.special.bessel_j0,
    "unknown method": lambda z: z.digamma(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused(name, burgers) -> None:
    stream = compile_residual(burgers).stream(_tensor(B, N, 2))
    with pytest.raises(NoRuleError):
        REFUSED[name](F.linear(stream, C[:, :2]))


def test_streams_of_different_residuals_do_not_mix(burgers) -> None:
    queries = _tensor(B, N, 2)
    one, other = (compile_residual(burgers).stream(queries) for _ in range(2))
    for function in (torch.add, torch.mul, torch.div, torch.maximum):
        with pytest.raises(NoRuleError, match="different residuals"):
            function(one, other)
    with pytest.raises(NoRuleError, match="different residuals"):
        torch.matmul(one, other.mT)


def test_stream_looks_like_its_value(burgers) -> None:
    queries = _tensor(B, N, 2)
    stream = compile_residual(burgers).stream(queries)
    assert (stream.shape, stream.ndim, stream.dim(), len(stream)) == ((B, N, 2), 3, 3, B)
    assert (stream.size(), stream.size(-1), stream.numel()) == ((B, N, 2), 2, B * N * 2)
    assert (stream.dtype, stream.device, stream.is_cuda) == (queries.dtype, queries.device, False)
    assert stream.is_floating_point()
    assert not hasattr(stream, "__array__")
    assert not stream.requires_grad
    assert repr(stream) == "StreamTensor(3 streams, shape=(2, 4, 2))"
    torch.testing.assert_close(stream.value, queries)
    torch.testing.assert_close(stream.detach(), queries)


def test_seeds_are_the_derivatives_of_the_coordinates(burgers) -> None:
    stream = compile_residual(burgers).stream(_tensor(B, N, 2))
    assert stream.data[1].unique(dim=1).tolist() == [[[0.0, 1.0]]] * B  # u_x of (t, x)
    assert stream.data[2].unique(dim=1).tolist() == [[[1.0, 0.0]]] * B  # u_t - 0.01 u_xx


def test_a_rule_for_an_operation_torch_lacks_is_refused() -> None:
    with pytest.raises(AttributeError, match="no operation named 'frobnicate'"):
        rule("frobnicate")(print)


def test_dropout_in_training_gives_one_mask_to_all_rows(burgers) -> None:
    stream: StreamTensor = compile_residual(burgers).stream(torch.ones(1, 500, 2))
    rows = F.dropout(stream + 0.0, 0.5, training=True).data
    dropped = rows[0] == 0
    assert 0.3 < dropped.double().mean() < 0.7
    assert not rows[:, dropped].any()
