"""Random attention of streams, and its sums over sensors in the most obvious way."""

import torch

from piop.residual.attention.kernel import AttentionOperands, ScoreMonomial, ScorePolynomials

PROGRAMS = {
    "order one": ScorePolynomials(2, ()),
    "Burgers": ScorePolynomials(3, (ScoreMonomial(2, 1, -1, -0.01, (1,)),)),
    "order four with coefficients": ScorePolynomials(
        5,
        (
            ScoreMonomial(2, 1, -1, 1.0, (1,)),
            ScoreMonomial(3, 1, -1, 3.0, (2,)),
            ScoreMonomial(3, 1, -1, 1.0, (1, 1)),
            ScoreMonomial(4, 1, 1, 4.0, (3,)),
            ScoreMonomial(4, 2, 0, 3.0, (2,)),
            ScoreMonomial(4, 1, -1, 6.0, (1, 2)),
            ScoreMonomial(4, 1, 1, 0.5, (1, 1, 1)),
        ),
    ),
    "two collapsed rows": ScorePolynomials(
        5,
        (
            ScoreMonomial(3, 1, -1, 1.0, (1,)),
            ScoreMonomial(3, 2, -1, 1.0, (2,)),
            ScoreMonomial(4, 1, 0, 2.0, (2,)),
        ),
    ),
}
SIZES = {  # B, H, N, M, d, e: odd ones, which no block divides
    "one of each": (1, 1, 1, 1, 1, 1),
    "small": (2, 2, 5, 7, 3, 2),
    "several blocks": (1, 2, 35, 41, 5, 17),
}


def operands(program, size, *, dtype=torch.float64, masked=True, scale=1.0, device="cpu"):
    """Draw operands with gradients; keys and queries are strided as a network leaves them."""
    b, h, n, m, d, e = size
    generator = torch.Generator().manual_seed(n * m + program.count)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    query = draw(program.count, b, n, h, d)
    query[0] *= scale
    query = query.to(device, dtype).requires_grad_()
    key = draw(b, h, d, m).to(device, dtype).requires_grad_()
    value = draw(b, h, m, e).to(device, dtype).requires_grad_()
    mask = None
    if masked:
        gone = draw(b, 1, 1, m) > 0.3
        gone[..., m // 2] = False
        mask = torch.zeros(b, 1, 1, m, dtype=torch.float64).masked_fill(gone, -1e9)
        mask[0, ..., 0] = 0.7 if m == 1 else -torch.inf
        mask = mask.to(device, dtype).expand(b, h, 1, m)
    weights = None
    if program.slots:
        weights = draw(program.slots, b, 1, n).to(device, dtype).expand(-1, -1, h, -1)
    leaves = (query, key, value)
    return leaves, AttentionOperands(query.transpose(2, 3), key.mT, value, mask, weights)


def dense(given, program):
    """Write out the scores, their polynomials and the sums."""
    z = list((given.query @ given.key.mT).unbind(0))
    level = z[0] if given.mask is None else z[0] + given.mask
    e = torch.exp(level - level.detach().amax(-1, keepdim=True))
    w = [torch.ones_like(e), *z[1:]]
    for term in program.terms:
        product = term.factor * z[term.lead]
        if term.slot >= 0:
            product = product * given.coefficients[term.slot][..., None]
        for member in term.members:
            product = product * z[member]
        w[term.target] = w[term.target] + product
    extended = torch.cat([given.value, torch.ones_like(given.value[..., :1])], -1)
    return torch.stack([(e * row) @ extended for row in w])


def assert_equal_sums(found, leaves, given, program, tolerance):
    """Compare sums, and their gradients by random weights, with the obvious way."""
    true = dense(given, program)
    weight = torch.randn(
        true.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    ).to(true)
    pairs = zip(
        (found, *torch.autograd.grad(found, leaves, weight)),
        (true, *torch.autograd.grad(true, leaves, weight)),
        strict=True,
    )
    for one, other in pairs:
        assert torch.isfinite(one).all()
        assert (one - other).abs().max() <= tolerance * (1e-30 + other.abs().max())
