"""The backbone of docs/backbones.md is found, keeps the contract and trains, as the text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from piop.problem import Problem
from piop.run import fit

ROOT = Path(__file__).resolve().parents[2]


def blocks(language):
    """Code of the section on a backbone of one's own."""
    section = (ROOT / "docs/backbones.md").read_text().split("## A backbone of your own")[1]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The three files of the section, installed as a distribution is."""
    folder = tmp_path_factory.mktemp("own")
    network, test = blocks("python")
    (points,) = blocks("toml")
    (folder / "pooled.py").write_text(network)
    (folder / "test_pooled.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    info = folder / "pooled-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pooled\nVersion: 1.0\n")
    announced = tomllib.loads(points)["project"]["entry-points"]["piop.backbones"]
    lines = "".join(f"{name} = {value}\n" for name, value in announced.items())
    (info / "entry_points.txt").write_text(f"[piop.backbones]\n{lines}")
    return folder


def in_python(package, *arguments):
    paths = os.pathsep.join([str(package), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=package,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


def test_it_keeps_the_contract(package):
    done = in_python(package, "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-2000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed > 100
    assert "failed" not in done.stdout


def test_it_trains_by_its_name(package, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(package))
    settings = {"functions": 2, "queries": 16, "width": 8}
    run = fit(
        Problem.from_file("heat"),
        steps=2,
        backbone="pooled",
        compile=False,
        device="cpu",
        settings=settings,
        out=tmp_path / "run",
        samples=0,
    )
    assert type(run.model.operator.backbone).__name__ == "Pooled"
    assert run.config.backbone_settings["width"] == 8
    sys.modules.pop("pooled")
