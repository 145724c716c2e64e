"""A program holds what a plan says, and its slopes are its derivative."""

import torch

from piop.residual import compile_residual
from piop.residual.attention.kernel import ScorePolynomials

from .cases import PROGRAMS


def _polynomial(program, z):
    w = [torch.ones_like(z[0]), *z[1:]]
    for term in program.terms:
        product = term.factor * z[term.lead] * (2.0 if term.slot >= 0 else 1.0)
        for member in term.members:
            product = product * z[member]
        w[term.target] = w[term.target] + product
    return w


def test_burgers_adds_the_square_of_the_slope(burgers):
    residual = compile_residual(burgers)
    program = ScorePolynomials.of(residual.stream(torch.zeros(1, 1, 2)).layout)
    (term,) = program.terms
    assert program.count == 3
    assert (term.target, term.lead, term.members, term.factor) == (2, 1, (1,), -0.01)


def test_slopes_are_the_gradient_of_the_terms():
    for program in PROGRAMS.values():
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(program.count, dtype=torch.float64, generator=generator).requires_grad_()
        a = torch.randn(program.count, dtype=torch.float64, generator=generator)
        w = _polynomial(program, z.unbind())
        (true,) = torch.autograd.grad(sum(x * y for x, y in zip(w, a, strict=True)), z)
        found = [torch.zeros(()), *a[1:]]
        for p in program.slopes:
            product = p.factor * a[p.lead] * (2.0 if p.slot >= 0 else 1.0)
            for member in p.members:
                product = product * z[member].detach()
            found[p.target] = found[p.target] + product
        torch.testing.assert_close(torch.stack(found[1:]), true[1:], rtol=1e-12, atol=1e-12)
