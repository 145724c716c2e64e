"""The table of errors and the JSON that stands for it."""

from __future__ import annotations

import json
import logging

import numpy as np

from piop.cli.console import prepare_output, print_json
from piop.cli.error_tables import error_table, profile_table, resolution_table

EVALUATION = {
    "relative_l2": {"mean": 0.0421, "std": 0.013, "per_sample": [0.03, 0.05]},
    "per_channel": {"u": 0.04, "v": 0.0442},
    "baselines": {"stays at u0": 0.8123},
    "reference": {"error_estimate": 4.2e-7},
    "residual": {"equation 1": 0.0123},
    "samples": 2,
    "steps": 1200,
    "seconds": 300.04,
    "first_step_seconds": 42.0,
    "warnings": ["something is off"],
}


def test_the_table_holds_every_number_a_reader_needs():
    assert error_table(EVALUATION).splitlines() == [
        "Relative L2 error on 2 held-out inputs",
        "  operator                   0.0421 ± 0.013",
        "    u                        0.04",
        "    v                        0.0442",
        "  stays at u0                0.8123",
        "  reference itself, at most  4.2e-07",
        "Residual (root mean square): equation 1 0.0123",
        "Trained 1200 steps in 300.0 s (first step and compiling 42.0 s more)",
        "Warning: something is off",
    ]


def test_a_single_unknown_is_not_told_twice():
    assert "    u" not in error_table({**EVALUATION, "per_channel": {"u": 0.0421}})


def test_without_a_reference_the_table_says_why():
    evaluation = {"relative_l2": None, "warnings": ["no reference: walls"], "steps": 3}
    assert error_table(evaluation).splitlines() == [
        "Trained 3 steps in 0.0 s (first step and compiling 0.0 s more)",
        "Warning: no reference: walls",
    ]


def test_json_is_strict_and_knows_arrays(capsys):
    print_json({"a": float("nan"), "b": np.arange(3), "c": (1, True), "d": np.float64(2), 5: {1}})
    found = json.loads(capsys.readouterr().out)
    assert found == {"a": None, "b": [0, 1, 2], "c": [1, True], "d": 2.0, "5": "{1}"}


def test_the_log_goes_to_stderr_with_its_level(capsys):
    prepare_output()
    logging.getLogger("piop.datasets").warning("careful with %s", "this")
    logging.getLogger("piop.datasets").info("fine")
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "piop: warning: careful with this\npiop: fine\n")


def test_a_profile_is_a_table_of_parts():
    part = {"seconds": 0.0015, "share": 0.75}
    eager = {"seconds_per_step": 0.004, "parts": {"network": part}}
    found = profile_table(
        {
            "seconds_per_step": 0.002,
            "points_per_second": 512000.0,
            "parts": {"forward and backward, compiled": part},
            "eager": eager,
        }
    )
    assert found.splitlines() == [
        "One step, 2.00 ms, 5.12e+05 points a second",
        "  forward and backward, compiled      1.500 ms   75.0 %",
        "The same uncompiled, 4.00 ms",
        "  network      1.500 ms   75.0 %",
    ]


def test_errors_over_sensors_and_grids_stand_in_rows_and_columns():
    cells = [
        {"sensors": s, "grid": g, "mean": m, "std": 0.01}
        for s, g, m in (
            ("25%", "8", 0.5),
            ("25%", "16", 0.4),
            ("100%", "8", 0.03),
            ("100%", "16", 0.02),
        )
    ]
    found = {
        "samples": 6,
        "sensors": {"25%": {"u0": 4}, "100%": {"u0": 16}},
        "grids": ["8", "16"],
        "relative_l2": cells,
        "reference_error_estimate": {"8": 1e-9, "16": 2e-9},
    }
    assert resolution_table(found).splitlines() == [
        "Relative L2 error on 6 held-out inputs",
        "  sensors       grid 8       grid 16",
        "  25% (u0 4)    0.5 ± 0.01   0.4 ± 0.01",
        "  100% (u0 16)  0.03 ± 0.01  0.02 ± 0.01",
        "The references themselves err by 2.0e-09 at most",
    ]
    unknown = {**found, "reference_error_estimate": {"8": None, "16": None}}
    assert "references" not in resolution_table(unknown)


def test_inferred_parameters_are_told_with_their_uncertainty():
    known = {"value": 0.010034, "std": 0.000021, "interval": [0.009993, 0.010075],
             "trained": 0.0112, "start": 0.03}  # fmt: skip
    unknown = {"value": 1.5, "std": None, "interval": None, "trained": 1.5, "start": 1.0}
    inference = {"samples": 16, "noise": {"u": {"std": 0.01, "relative": 0.0503}}}
    found = error_table(
        {**EVALUATION, "inferred": {"nu": known, "k": unknown}, "inference": inference}
    ).splitlines()
    assert (
        "Inferred nu = 0.010034 ± 2.1e-05 (95 %: 0.009993 to 0.010075; training alone 0.0112)"
        in found
    )
    assert "Inferred k = 1.5" in found
    assert "Noise of the data: 5 % of u (16 samples)" in found
