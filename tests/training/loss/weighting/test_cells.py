import torch

from piop.training.loss.weighting.base import Bins, Cells

TWO = Cells([Bins(0, 1.0, 2.0, 3), Bins(2, -1.0, 4.0, 5)])


def points(count=40, seed=0):
    draws = torch.rand(2, count, 3, generator=torch.Generator().manual_seed(seed)).double()
    return draws * torch.tensor([2.0, 7.0, 4.0]) + torch.tensor([1.0, 0.0, -1.0])


def test_a_cell_is_the_product_of_its_bins():
    queries = points()
    number = TWO.of(queries)
    for b in range(2):
        for n in range(40):
            t, _, x = queries[b, n].tolist()
            assert number[b, n] == int((t - 1) / 2 * 3) * 5 + int((x + 1) / 4 * 5)
    assert TWO.count == 15


def test_the_ends_belong_to_the_first_and_the_last_bin():
    ends = torch.tensor([[[1.0, 0.0, -1.0], [3.0, 0.0, 3.0]]])
    assert TWO.of(ends).tolist() == [[0, 14]]


def test_sums_over_cells_are_those_of_a_loop():
    queries = points()
    values = queries[..., 1] ** 2
    sums, counts = TWO.sums(values, queries)
    number = TWO.of(queries)
    for cell in range(15):
        own = number == cell
        assert torch.allclose(sums[cell], values[own].sum())
        assert counts[cell] == own.sum()


def test_without_axes_there_is_one_cell():
    values = torch.ones(2, 40)
    sums, counts = Cells([]).sums(values, points())
    assert sums.tolist() == counts.tolist() == [80.0]
