"""The gradients that the basic rules write out reach every parameter."""

import torch
import torch.nn.functional as F

from piop.residual import compile_residual


def test_gradients_of_all_parameters_equal_nested_reverse_mode(burgers) -> None:
    residual = compile_residual(burgers)
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.1

    queries = drawn(3, 5, 2)
    parameters = [drawn(6, 2), drawn(6), drawn(1, 1, 6), drawn(4, 6), drawn(4), drawn(1, 4)]
    parameters += [drawn(1, 2), drawn(3, 5, 6)]
    for parameter in parameters:
        parameter.requires_grad_()
    first, bias, row, second, other, last, gate, everywhere = parameters

    def field(q):
        state = torch.tanh(F.linear(q, first, bias)) + row
        state = F.linear(q, gate) * state + everywhere  # the left factor is broadcast
        return F.linear(torch.sin(F.linear(state, second, other)), last)

    slopes = []
    for evaluate in (residual, residual.reverse):
        loss = evaluate(field, queries).values.square().mean()
        slopes.append(torch.autograd.grad(loss, parameters))
    for one, two in zip(*slopes, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)
