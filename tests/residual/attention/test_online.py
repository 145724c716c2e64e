"""Sums over blocks of sensors equal those over all at once."""

import pytest
import torch

from piop.residual.attention.online import attend_in_blocks, online_totals

from .cases import PROGRAMS, SIZES, assert_equal_sums, operands


@pytest.mark.parametrize("block", [1, 3, 16, None])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_equal_the_whole(name, size, block):
    leaves, given = operands(PROGRAMS[name], SIZES[size])
    found = online_totals(given, PROGRAMS[name], block)
    assert_equal_sums(found, leaves, given, PROGRAMS[name], 1e-12)


@pytest.mark.parametrize("block", [2, 16])
def test_large_scores_neither_overflow_nor_lose_digits(block):
    program = PROGRAMS["Burgers"]
    leaves, given = operands(program, SIZES["several blocks"], scale=400.0, masked=False)
    assert (given.query[0] @ given.key.mT).abs().max() > 1000  # e^1000 is beyond float64
    found = online_totals(given, program, block)
    assert_equal_sums(found, leaves, given, program, 1e-12)


def test_a_query_that_sees_no_sensor_spoils_no_other():
    program = PROGRAMS["Burgers"]
    leaves, given = operands(program, SIZES["small"])
    given.mask[:, :1][1] = -torch.inf  # the heads share it
    found = online_totals(given, program, 3)
    assert (found[:, 1] == 0).all()
    gradients = torch.autograd.grad(found.sum(), leaves)
    assert all(torch.isfinite(g).all() for g in gradients)


def test_the_operation_keeps_its_contract():
    """Shapes and strides of the fake tensors, gradients, no hidden changes, by torch's checks."""
    program = PROGRAMS["order four with coefficients"]
    _, given = operands(program, SIZES["small"])
    leaves = [x.detach().requires_grad_() for x in (given.query, given.key, given.value)]
    rest = (given.mask, given.coefficients)
    torch.library.opcheck(
        attend_in_blocks,
        (*leaves, *rest, *program.encoded(), 3),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )
    sums, shift = attend_in_blocks(*leaves, *rest, *program.encoded(), 3)
    torch.library.opcheck(
        torch.ops.piop.attend_in_blocks_backward.default,
        (torch.ones_like(sums), *(x.detach() for x in leaves), *rest, shift, *program.encoded(), 3),
        test_utils=("test_schema", "test_faketensor"),
    )
