"""Backbones of other packages: found by name, imported when asked for, refused in words."""

from __future__ import annotations

import sys

import pytest

from piop.errors import UsageError
from piop.models import BACKBONES, build_backbone, find_preset
from piop.models.registry import all_backbones

from .cases import SIGNATURES

MODULE = """
from piop.models.deeponet import PRESETS
ONE = PRESETS["default"]
NAMELESS = {"paper": ONE}
WRONG = {"default": 3}
class Worded(ONE.build):
    field = "grid"
WORDED = {"default": type(ONE)(Worded, ONE.config)}
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on the path that announces backbones, as name → value."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(points, module="strangers", code=MODULE, distribution="strange-nets"):
        (tmp_path / f"{module}.py").write_text(code)
        folder = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        lines = "".join(f"{name} = {module}:{value}\n" for name, value in points.items())
        (folder / "entry_points.txt").write_text(f"[piop.backbones]\n{lines}")

    yield put
    sys.modules.pop("strangers", None)


def test_an_announced_backbone_is_built_like_one_of_piops_own(install):
    install({"stranger": "PRESETS"})
    assert "strangers" not in sys.modules
    find_preset("pit")
    assert "strangers" not in sys.modules, "imported when asked for alone"
    network = build_backbone("stranger", SIGNATURES["evolution"], width=16)
    assert network.config.width == 16
    assert all_backbones()[0].keys() == BACKBONES.keys() | {"stranger"}
    with pytest.raises(UsageError, match="Did you mean 'stranger'"):
        find_preset("strangr")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("MISSING", "cannot be imported from 'strangers:MISSING' (AttributeError"),
        ("ONE", "'strangers:ONE' is a Preset, not a mapping of names to presets"),
        ("NAMELESS", "has no preset 'default'"),
        ("WRONG", "holds a int as 'default', not a Preset"),
        ("WORDED", "has a preset 'default' with field = 'grid', not POINT_FIELD"),
    ],
)
def test_a_broken_one_is_told_by_its_distribution_and_harms_no_other(install, value, message):
    install({"broken": value, "stranger": "PRESETS"})
    with pytest.raises(UsageError) as error:
        find_preset("broken")
    assert str(error.value).startswith("backbone 'broken' of strange-nets 1.2")
    assert message in str(error.value)
    assert find_preset("stranger").build.__name__ == "DeepONet"
    found, faults = all_backbones()
    assert "broken" not in found
    assert faults == [str(error.value)]


def test_a_package_that_cannot_be_imported_is_told_with_its_reason(install):
    install({"broken": "PRESETS"}, code="raise OSError('no library')")
    with pytest.raises(UsageError, match=r"\(OSError: no library\); update or uninstall it"):
        find_preset("broken")


def test_a_name_of_piops_own_is_not_given_away(install):
    install({"pit": "PRESETS"})
    with pytest.warns(RuntimeWarning, match=r"'pit' of strange-nets 1\.2 is left out"):
        assert find_preset("pit") is BACKBONES["pit"]["default"]
    found, faults = all_backbones()
    assert found["pit"] is BACKBONES["pit"]
    assert len(faults) == 1


def test_a_name_announced_twice_is_refused(install):
    install({"stranger": "PRESETS"})
    install({"stranger": "PRESETS"}, distribution="other-nets")
    with pytest.raises(UsageError, match=r"by other-nets 1\.2 and by strange-nets 1\.2"):
        find_preset("stranger")
