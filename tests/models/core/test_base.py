"""What is told of inputs that do not fit, and what a query meets."""

from __future__ import annotations

import pytest
import torch

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models import build_backbone

from ..cases import SIGNATURES, queries_for, samples_for


def test_inputs_that_do_not_fit_are_told_with_what_would():
    signature = SIGNATURES["evolution"]
    model = build_backbone("deeponet", signature).double()
    inputs, queries = samples_for(signature), queries_for(signature)
    good = inputs["u0"]
    with pytest.raises(DataError, match="'u0' is missing; given: 'v0'"):
        model({"v0": good}, queries)
    with pytest.raises(DataError, match="2 channels; this network was built for 1"):
        model({"u0": FunctionSamples(good.points, good.values.repeat(1, 1, 2))}, queries)
    with pytest.raises(DataError, match=r"2 coordinates; it depends on 1 \(x\)"):
        model({"u0": FunctionSamples(good.points.repeat(1, 1, 2), good.values)}, queries)
    with pytest.raises(DataError, match="3 columns; give one each for t, x"):
        model(inputs, torch.zeros(2, 7, 3))


@pytest.mark.parametrize(
    ("name", "preset", "growth"),
    [
        ("pit", "default", {"evolution": 0, "steady": 1, "several": 1, "none": 0}),
        ("pit", "paper", {"evolution": 1, "steady": 1, "several": 3, "none": 0}),
        ("deeponet", "default", {"evolution": 0, "steady": 0, "several": 0, "none": 0}),
    ],
)
def test_what_a_query_meets_grows_only_with_sensors_that_are_not_read_first(name, preset, growth):
    for case, functions in growth.items():
        signature = SIGNATURES[case]
        model = build_backbone(name, signature, preset)
        few, many = (
            model.context_length({e.name: count if e.of else 1 for e in signature.inputs})
            for count in (10, 1000)
        )
        assert many - few == 990 * functions, case
