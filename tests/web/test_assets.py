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


NARROW = [[1.55, 1.9, True], [8.0, 8.6, True], [1e-8, 1.2e-8, True], [1.01e7, 1.03e7, False]]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_an_axis_of_any_range_has_ticks_of_different_texts():
    axes = [*NARROW, [0.5, 3, True], [1e-9, 3, True], [-1, 1, False], [0, 1e-8, False]]
    call = f"{json.dumps(axes)}.map(([a, b, log]) => new Plots.Axis(a, b, log).ticks(4))"
    script = f"{web.plots()};console.log(JSON.stringify({call}))"
    found = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    for (low, high, _), ticks in zip(axes, json.loads(found.stdout), strict=True):
        texts = [tick["text"] for tick in ticks]
        assert len(texts) > 1, (low, high)
        assert len(set(texts)) == len(texts), texts
        assert all(0.999 * low <= t["value"] <= 1.001 * high for t in ticks if low > 0)
