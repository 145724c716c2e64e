"""Errors against hand-computed numbers; baselines; what is refused."""

import math

import pytest
import torch

from piop.metrics import relative_l2, relative_l2_by_time, summarise, trivial_baselines, unbeaten

TRUTH = torch.tensor([[[3.0, 4.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 0.0]]])  # [B, T, x]
OTHER = torch.tensor([[[3.0, 4.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 3.0]]])


def test_relative_l2_is_the_ratio_of_norms_over_everything():
    expected = [1 / math.sqrt(29), math.sqrt(10)]
    torch.testing.assert_close(relative_l2(OTHER, TRUTH), torch.tensor(expected))


def test_by_time_each_time_has_its_own_norm():
    expected = torch.tensor([[0.0, 0.5], [1.0, math.inf]])
    torch.testing.assert_close(relative_l2_by_time(OTHER, TRUTH), expected)


def test_a_scaled_truth_is_off_by_the_scale_whatever_its_size():
    truth = torch.randn(5, 3, 4, 2) * torch.tensor([1e-6, 1.0, 1e3, 1e6, 1.0])[:, None, None, None]
    torch.testing.assert_close(
        relative_l2(1.1 * truth, truth), torch.full((5,), 0.1), rtol=1e-4, atol=0
    )


def test_zero_predicted_where_the_truth_is_zero_is_no_error():
    assert relative_l2(torch.zeros(1, 3), torch.zeros(1, 3)).tolist() == [0.0]


def test_nan_stays_nan():
    assert relative_l2(torch.tensor([[math.nan, 1.0]]), torch.ones(1, 2)).isnan().all()


def test_a_summary_holds_mean_spread_and_samples():
    summary = summarise(torch.tensor([0.1, 0.2, 0.6]))
    assert summary.mean == pytest.approx(0.3)
    assert summary.std == pytest.approx(math.sqrt(0.14 / 2))
    assert summary.to_dict()["per_sample"] == pytest.approx([0.1, 0.2, 0.6])
    assert str(summary) == "0.3 ± 0.26"
    assert summarise(torch.tensor([0.5])).std == 0.0


def test_baselines_are_what_they_say():
    baselines = trivial_baselines(TRUTH, initial=TRUTH[:, 0])
    torch.testing.assert_close(
        baselines["stays at u0"], torch.tensor([math.sqrt((9 + 4) / 29), 1.0])
    )
    torch.testing.assert_close(
        baselines["mean of the others"],
        torch.tensor([math.sqrt((4 + 16 + 4) / 29), math.sqrt(4 + 16 + 4)]),
    )
    assert baselines["zero"].tolist() == [1.0, 1.0]


def test_staying_at_u0_is_judged_at_every_time():
    truth = torch.tensor([[[1.0], [2.0], [4.0]]])
    error = trivial_baselines(truth, initial=truth[:, 0])["stays at u0"]
    torch.testing.assert_close(error, torch.tensor([math.sqrt((1 + 9) / 21)]))


def test_one_steady_solution_has_zero_as_its_only_baseline():
    assert list(trivial_baselines(TRUTH[:1, 0])) == ["zero"]


def test_baselines_that_are_not_beaten_are_named():
    baselines = {"good": torch.tensor([0.1, 0.1]), "bad": torch.tensor([0.5, 0.7])}
    assert unbeaten(torch.tensor([0.1, 0.3]), baselines) == ("good",)
    assert unbeaten(torch.tensor([0.0, 0.1]), baselines) == ()
    assert unbeaten(torch.tensor([math.nan, 0.1]), baselines) == ("good", "bad")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relative_l2(TRUTH[:1], TRUTH), r"prediction has shape \[1, 2, 2\], the truth"),
        (lambda: relative_l2_by_time(TRUTH[:1], TRUTH), "prediction has shape"),
        (lambda: relative_l2_by_time(torch.ones(2), torch.ones(2)), r"expected \[B, T, …\], got"),
        (lambda: trivial_baselines(TRUTH, TRUTH), "prediction has shape"),
        (lambda: summarise(torch.ones(0)), r"at least one sample \[B\], got \[0\]"),
        (lambda: summarise(torch.ones(2, 2)), "at least one sample"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
