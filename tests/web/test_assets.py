"""Assets of pages: packed arrays, texts within scripts, no addresses."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from piop import web


@pytest.mark.parametrize("exact", [False, True])
def test_packed_values_come_back(exact):
    values = np.random.default_rng(0).normal(size=(3, 5, 7))
    values[1, 2, 3] = np.nan
    found = web.unpack(web.pack(values, exact))
    assert found.shape == values.shape
    assert np.isnan(found[1, 2, 3])
    step = (np.nanmax(values) - np.nanmin(values)) / web.LEVELS
    assert np.nanmax(np.abs(found - values)) <= (1e-6 if exact else 0.51 * step)
    assert np.isnan(found).sum() == 1


def test_constant_and_missing_values_can_be_packed():
    assert web.unpack(web.pack([2.5, 2.5])).tolist() == [2.5, 2.5]
    assert np.isnan(web.unpack(web.pack([np.inf, np.nan]))).all()


def test_no_text_ends_the_script_element():
    hostile = {"</script><b>": ["<!--", "&amp;"], "number": float("nan")}
    text = web.script_json(hostile)
    assert not set("<>&") & set(text)
    assert json.loads(text) == {**hostile, "number": None}


def test_assets_name_no_address():
    for text in (web.style(), web.plots()):
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|//cdn|@import|url\((?!#)", text)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_script_decodes_what_python_packed():
    values = np.array([[0.25, -1.0, np.nan], [3.0, 0.0, 2.0]])
    calls = [f"Plots.decode({web.script_json(web.pack(values, e))}).values" for e in (False, True)]
    script = f"{web.plots()};console.log(JSON.stringify([{','.join(calls)}].map(v => [...v])))"
    found = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    for decoded in json.loads(found.stdout):
        assert decoded[2] is None
        kept = [v for v in decoded if v is not None]
        assert np.allclose(kept, [0.25, -1.0, 3.0, 0.0, 2.0], atol=4 / web.LEVELS)
