"""A network given as a class: trained, saved, and loaded when the class is given again."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from piop import Backbone
from piop.errors import UsageError
from piop.models.core.base import Preset
from piop.run import Run, fit, resume

FEW = {"functions": 2, "queries": 8}


@dataclass(frozen=True)
class Sizes:
    """Sizes.

    Attributes:
        width: Features.
    """

    width: int = 6


class Plain(Backbone):
    """The mean of each input, and the query, through one layer."""

    def __init__(self, signature, config: Sizes):
        super().__init__(signature, config)
        self.first = nn.Linear(len(signature.coordinates) + len(signature.inputs), config.width)
        self.last = nn.Linear(config.width, signature.channels)

    def forward(self, inputs, queries):
        means = [inputs[entry.name].values.mean(1, keepdim=True) for entry in self.signature.inputs]
        state = queries @ self.first.weight[:, : queries.shape[-1]].T
        state = state + torch.cat(means, -1) @ self.first.weight[:, queries.shape[-1] :].T
        return self.last(torch.tanh(state + self.first.bias))


class Unsized(Plain):
    """Takes sizes, and does not say which."""

    def __init__(self, signature, config):
        super().__init__(signature, config)


@pytest.fixture(scope="module")
def run(heat, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "r"
    return fit(heat, steps=2, backbone=Plain, out=out, samples=2, width=9, **FEW)


def test_a_class_is_trained_with_its_own_sizes(run):
    assert type(run.model.operator.backbone) is Plain
    assert run.model.operator.backbone.config == Sizes(9)
    assert run.config.backbone == f"{__name__}:Plain"


def test_its_run_loads_and_goes_on_given_the_class(run):
    again = Run.load(run.path, backbone=Plain)
    given = {"u0": torch.linspace(-1, 1, 8)}
    assert (again.predict(given)["u"] == run.predict(given)["u"]).all()
    assert resume(run.path, steps=3, samples=0, backbone=Plain).metrics[-1]["step"] == 3


def test_without_the_class_the_message_says_so(run):
    for use in (lambda: Run.load(run.path), lambda: resume(run.path, steps=9)):
        with pytest.raises(UsageError, match=r":Plain' is a class that was given in Python.*CLASS"):
            use()
    with pytest.raises(UsageError, match=r":Unsized was given; the run has .*:Plain"):
        Run.load(run.path, backbone=Preset(Unsized, Sizes()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Unsized, "sizes of Unsized are unknown: annotate __init__"),
        (nn.Linear, "Linear is neither a name nor a class derived from piop.Backbone"),
        (nn.Linear(2, 1), "an object of Linear is neither a name nor a class"),
        (Preset(nn.Linear, Sizes()), "builds no Backbone"),
    ],
)
def test_what_is_no_network_is_refused(given, message, heat, tmp_path):
    with pytest.raises(UsageError, match=message):
        fit(heat, steps=1, backbone=given, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_preset_is_taken_as_it_is(heat, tmp_path):
    chosen = Preset(Unsized, Sizes(4))
    run = heat.fit(steps=1, backbone=chosen, out=tmp_path / "r", samples=0, **FEW)
    assert run.model.operator.backbone.config == Sizes(4)
