"""The contract holds for a sound network, and each of its claims fails for one that breaks it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from piop.models.core.base import ROLLOUT_FIELD, Preset
from piop.testing import SIGNATURES, BackboneContract, Case
from piop.testing.cases import PUBLISHED_SIGNATURES, cases_of

from .faulty import Fault, Pooled

FAULTS = {
    "refuses": "test_own_signature_is_served_and_refusals_give_a_reason",
    "dtype": "test_output_has_every_channel_for_any_b_m_n",
    "order": "test_order_of_sensors_does_not_matter",
    "batch": "test_samples_of_a_batch_are_independent",
    "shared": "test_shared_queries_stand_for_those_of_every_sample",
    "queries": "test_queries_are_independent",
    "grid": "test_on_grid_equals_forward_on_the_mesh",
    "rule": "test_streams_agree_with_reverse_mode",
    "period": "test_periodic_axes_are_periodic",
    "blind": "test_every_input_matters",
    "mask": "test_masked_sensors_are_ignored",
    "few": "test_any_number_of_sensors_is_accepted",
    "dead": "test_every_parameter_receives_gradient",
    "idle": "test_every_parameter_receives_gradient",
    "state": "test_state_dict_round_trip_keeps_the_output",
    "noise": "test_evaluation_is_deterministic",
    "complex": "test_onnx_has_all_its_operations",
    "compiled": "test_traced_network_gives_the_same_output",
    "meets": "test_context_length_grows_at_most_with_the_sensors",
    "check": "test_inputs_that_do_not_fit_are_refused",
}


class TestSound(BackboneContract):
    presets: ClassVar = {"pooled": Preset(Pooled, Fault())}


@pytest.mark.parametrize(("kind", "test"), FAULTS.items(), ids=FAULTS)
def test_a_fault_fails_the_test_that_is_there_for_it(kind, test):
    preset = Preset(Pooled, Fault(kind))
    with pytest.raises((AssertionError, RuntimeError, RuntimeWarning, KeyError)):
        getattr(BackboneContract(), test)(Case("own", preset, preset.signature))


def test_every_claim_has_a_fault_or_a_test_here():
    claims = {name for name in dir(BackboneContract) if name.startswith("test_")}
    assert claims - set(FAULTS.values()) == {
        "test_its_config_is_a_frozen_dataclass",
        "test_compiled_network_gives_the_same_output_and_gradient",  # slow; as the traced one
        "test_rollout_times_increase_to_the_end_of_the_axis",
    }


def test_a_config_that_can_change_fails():
    @dataclass
    class Loose:
        kind: str = "none"

    case = Case("own", Preset(Pooled, Loose()), SIGNATURES["evolution"])
    with pytest.raises(AssertionError, match="Loose is not frozen"):
        BackboneContract().test_its_config_is_a_frozen_dataclass(case)


@pytest.mark.parametrize("times", [(0.0, 1.0, 0.5, 2.475), (0.0, 1.0), (-1.0, 2.475)])
def test_steps_that_leave_their_time_fail(times):
    class Marching(Pooled):
        field = ROLLOUT_FIELD

        def fixed_times(self):
            return times

    case = Case("own", Preset(Marching, Fault()), SIGNATURES["evolution"])
    with pytest.raises(AssertionError):
        BackboneContract().test_rollout_times_increase_to_the_end_of_the_axis(case)


def test_the_first_of_a_class_runs_on_all_shapes_and_the_others_on_their_own():
    first = Preset(Pooled, Fault())
    presets = {"a": first, "again": first, "b": Preset(Pooled, Fault(), source="a paper")}
    found = cases_of(presets)
    assert [name for name in found if name.startswith("b-")] == ["b-own"]
    assert {name for name in found if name.startswith("a-")} == {
        "a-own",
        *(f"a-{shapes}" for shapes in SIGNATURES),
    }
    assert not [name for name in found if name.startswith("again")]


def test_a_published_network_runs_on_a_few_shapes_besides_its_own():
    found = cases_of({"p": Preset(Pooled, Fault(), source="a paper")})
    assert set(found) == {"p-own", *(f"p-{shapes}" for shapes in PUBLISHED_SIGNATURES)}
    assert set(PUBLISHED_SIGNATURES) < set(SIGNATURES)


def test_a_case_takes_the_small_values_of_its_preset():
    preset = Preset(Pooled, Fault(), small={"kind": "dead"})
    assert Case("own", preset, preset.signature).config == Fault("dead")


def test_the_suite_is_imported_without_pytest():
    code = "import sys, piop.testing; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr
