import math

import pytest
import torch

from piop.training.config import OptimiserConfig
from piop.training.loop.divergence import DivergenceMonitor, calmer_rate, not_finite


def noted(watch, *residuals, **others):
    """What the watch says of each noted step in turn."""
    return [watch.note({"loss": r, "residual": r, **others}) for r in residuals]


def test_a_loss_far_above_all_before_for_five_notes_has_exploded():
    found = noted(DivergenceMonitor(), 1.0, 1e-4, *[1e4] * 5)
    assert found[:6] == [None] * 6
    assert found[6] == "the loss exploded: its residual is 1e+04 and was 0.0001 at its lowest"


def test_a_spike_is_no_explosion():
    watch = DivergenceMonitor()
    assert noted(watch, 1.0, 1e-4, *[1e9] * 4, 1e-3, *[1e9] * 4) == [None] * 11


@pytest.mark.parametrize(
    "losses",
    [
        [
            1.0,
            *[10.0 ** -(k / 2) for k in range(20)],
            *[1.0] * 20,
        ],  # curriculum
        [1.0, *[900.0] * 20],  # an unlucky start
        [0.0, *[1.0] * 20],  # zero at first
        [1e-9, *[1e-7 * 10**k for k in range(5)], *[1e-4] * 9],
    ],
)
def test_losses_that_may_grow_raise_no_alarm(losses):
    watch = DivergenceMonitor()
    assert noted(watch, *losses, data=1.0) == [None] * len(losses)


def test_a_weight_that_adapts_raises_no_alarm():
    watch = DivergenceMonitor()
    for loss in [1.0, *[1e9] * 20]:
        assert watch.note({"loss": loss, "residual": 1.0, "boundary": 0.1}) is None


def test_the_term_that_explodes_is_named():
    watch = DivergenceMonitor()
    watch.note({"loss": 2.0, "residual": 1.0, "boundary": 1.0})
    rows = [{"loss": 1e8, "residual": 1.0, "boundary": 1e8}] * 5
    assert "its boundary is 1e+08" in [watch.note(row) for row in rows][-1]


def test_weights_of_a_suspicious_step_are_not_sound():
    watch = DivergenceMonitor()
    noted(watch, 1.0, 1e-4)
    assert watch.verdict({"loss": 900.0, "residual": torch.tensor(900.0)}) is None
    assert watch.verdict({"loss": 1e4, "residual": torch.tensor(1e4)}) is not None
    assert watch.verdict({"loss": 1.0, "residual": 1.0, "gradient": math.inf}) is not None
    assert watch.verdict({"loss": torch.tensor(math.nan)}) is not None


def test_a_watch_goes_on_after_its_state_is_restored():
    first, second = DivergenceMonitor(), DivergenceMonitor()
    noted(first, 1.0, 1e-4, *[1e4] * 3)
    second.load_state_dict(first.state_dict())
    assert noted(second, 1e4, 1e4)[-1] == noted(first, 1e4, 1e4)[-1] != None  # noqa: E711


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"loss": math.nan, "residual": 1.0, "data": math.nan}, "the loss is nan through its data"),
        (
            {"loss": math.inf, "residual": math.inf, "initial": math.nan},
            "the loss is inf through its residual and initial",
        ),
        ({"loss": math.inf}, "the loss is inf"),
        ({"loss": 1.0, "residual": math.nan}, "the residual of the loss is not finite"),
        ({"loss": 1.0, "gradient": math.nan}, "the gradients are not finite, though the loss is"),
        ({"loss": 1.0, "residual": 1.0, "gradient": 1.0}, None),
    ],
)
def test_terms_that_are_not_finite_are_named(row, what):
    assert not_finite(row) == what


@pytest.mark.parametrize("sums", [[1.0, math.nan], [1.0, math.inf], [1.0, 2.0]])
def test_the_equation_that_fails_is_named(sums):
    watch = DivergenceMonitor(["dt(u) = v", "dt(v) = u"])
    found = watch.culprit({"equations": torch.tensor(sums)})
    assert found == " in equation 2, dt(v) = u"


def test_one_equation_needs_no_name():
    assert DivergenceMonitor(["dt(u) = 0"]).culprit({"equations": torch.tensor([1.0])}) == ""
    assert DivergenceMonitor(["dt(u) = v", "dt(v) = u"]).culprit({}) == ""


@pytest.mark.parametrize(
    ("optimiser", "tried", "rate"),
    [("soap", 1e30, 1e-2), ("adamw", 1.0, 1e-3), ("soap", 1e-2, 2e-3), ("muon", 1e-3, 2e-4)],
)
def test_the_advice_is_the_usual_rate_or_a_fifth(optimiser, tried, rate):
    config = OptimiserConfig(optimiser=optimiser, learning_rate=tried)
    assert calmer_rate(config) == pytest.approx(rate)
