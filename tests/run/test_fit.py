import json
import math
import shutil

import numpy as np
import pytest
import torch
import xarray as xr

from piop import generate
from piop.datasets import Dataset
from piop.errors import DataError, NotSupportedError, UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.report import draw_run
from piop.run import Run, fit, resume
from piop.run.data import training_and_held_out
from piop.run.folder import RunFolder
from tests.small_heat import HEAT


def strip(run):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics]


def test_a_run_folder_holds_all_that_is_promised(trained):
    names = {p.name for p in trained.path.iterdir()}
    assert names == {
        "spec.yaml",
        "config.json",
        "checksums.json",
        "metrics.jsonl",
        "model.safetensors",
        "state",
        "evaluation.json",
    }


def test_the_config_records_choices_versions_and_seed(trained):
    record = json.loads((trained.path / "config.json").read_text())
    assert record["format"] == 1
    assert record["hash"] == trained.problem.hash
    assert record["training"]["machine"]["seed"] == 0
    assert record["training"]["machine"]["precision"] == "float64"
    assert record["training"]["machine"]["compile"] is None  # decided by the first steps
    assert record["training"]["points"]["functions"] == 4  # from the spec's solve block
    assert record["training"]["backbone_settings"]["width"] == 8
    assert record["versions"]["torch"] == torch.__version__


def test_settings_given_win_over_those_of_the_spec(heat, tmp_path):
    run = fit(heat, steps=1, out=tmp_path / "r", samples=0, settings={"functions": "2"})
    assert run.config.points.functions == 2
    assert run.config.points.queries == 32


@pytest.mark.parametrize("backbone", ["deeponet", "modified_deeponet"])
def test_another_backbone_trains_on_physics_and_comes_back(heat, tmp_path, backbone):
    # The spec's `width`, `blocks` and `heads` are PIT's; its `functions` hold for every network.
    sizes = {"width": 24, "latent": 16, "layers": 3}
    run = fit(heat, steps=120, backbone=backbone, out=tmp_path / "r", settings=sizes, samples=4)
    assert run.config.backbone_settings == sizes
    assert run.config.points.functions == 4
    assert run.metrics[-1]["loss"] < 0.2 * run.metrics[0]["loss"]
    x = torch.linspace(0, 2, 9, dtype=torch.float64)[:8]
    given, at = {"u0": (x, torch.sin(torch.pi * x))}, {"t": [1.0, 2.0], "x": x}
    first = run.predict(given, at).u
    assert (first.sel(t=1.0).values - torch.sin(torch.pi * x).numpy()).max() < 1e-3
    assert Run.load(run.path).predict(given, at).u.equals(first)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(heat, tmp_path):
    one = fit(heat, steps=3, out=tmp_path / "1", samples=0)
    two = fit(heat, steps=3, out=tmp_path / "2", samples=0)
    three = fit(heat, steps=3, out=tmp_path / "3", samples=0, seed=1)
    assert strip(one) == strip(two)
    assert strip(one)[0]["loss"] != strip(three)[0]["loss"]


def test_torch_is_left_as_it_was(heat, tmp_path):
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    fit(heat, steps=1, out=tmp_path / "r", samples=0, threads=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == torch.float32


def test_a_run_can_start_from_another(heat, trained, tmp_path):
    run = fit(
        heat, steps=1, out=tmp_path / "r", samples=0, precision="float64", init_from=trained.path
    )
    assert run.metrics[0]["loss"] < 0.5 * trained.metrics[0]["loss"]
    for file in (run.path / "state").iterdir():  # as where it is killed before the first checkpoint
        file.unlink()
    again = resume(run.path, steps=1, samples=0)
    assert again.metrics[0]["loss"] == run.metrics[0]["loss"]


def test_a_run_cannot_start_from_the_one_that_it_replaces(heat, trained, tmp_path):
    run = shutil.copytree(trained.path, tmp_path / "r")
    with pytest.raises(UsageError, match=r"init_from: .*r is the folder that the new run replaces"):
        fit(heat, steps=1, out=run, force=True, samples=0, init_from=tmp_path / "." / "r")
    assert (run / "model.safetensors").exists()


def test_settings_may_be_arguments_of_their_own(heat, tmp_path):
    few = {"functions": 2, "queries": 8}
    run = fit(
        heat, steps=1, out=tmp_path / "r", samples=0, settings=few, learning_rate=1e-3, width=6
    )
    assert (run.config.points.functions, run.config.optimiser.learning_rate) == (2, 1e-3)
    assert run.config.backbone_settings["width"] == 6
    assert resume(tmp_path / "r", steps=2, samples=0, clip=0.5).config.optimiser.clip == 0.5
    with pytest.raises(UsageError, match=r"'learning_rates' is not a setting. Did you mean"):
        heat.fit(steps=1, learning_rates=1e-3)
    with pytest.raises(UsageError, match="functions: is given twice, as an argument and in"):
        fit(heat, steps=1, functions=2, settings=few)
    with pytest.raises(UsageError, match="width: cannot change in the middle of a run"):
        resume(tmp_path / "r", steps=3, width=8)


def test_a_start_from_another_network_is_refused_in_a_line_and_leaves_nothing(
    heat, trained, tmp_path
):
    with pytest.raises(UsageError, match=r"differs from this one: size mismatch.*more$"):
        fit(heat, steps=1, out=tmp_path / "r", init_from=trained.path, settings={"width": 16})
    with pytest.raises(UsageError, match=r"differs from this one: it has no backbone\."):
        fit(heat, steps=1, out=tmp_path / "r", init_from=trained.path, settings={"blocks": 3})
    assert not (tmp_path / "r").exists()


def test_a_run_that_is_there_is_not_overwritten(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    before = (tmp_path / "r" / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"exists already.*--force"):
        fit(heat, steps=1, out=tmp_path / "r", samples=0, seed=1)
    assert (tmp_path / "r" / "model.safetensors").read_bytes() == before


def test_force_replaces_a_run_and_nothing_else_in_its_folder(heat, tmp_path):
    fit(heat, steps=2, out=tmp_path / "r", samples=2)
    (tmp_path / "r" / "notes.txt").write_text("mine")
    run = fit(heat, steps=1, out=tmp_path / "r", samples=0, force=True)
    assert len(run.metrics) == 1
    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "r" / "evaluation.json").exists()


def test_wrong_arguments_leave_a_run_that_is_there_alone(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    before = (tmp_path / "r" / "config.json").read_bytes()
    with pytest.raises(UsageError, match="is not a setting"):
        fit(heat, steps=1, out=tmp_path / "r", force=True, settings={"nonsense": 1})
    assert (tmp_path / "r" / "config.json").read_bytes() == before


def test_force_does_not_replace_what_is_no_run(heat, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="is not a run folder"):
        fit(heat, steps=1, out=tmp_path / "r", force=True)


def test_a_run_killed_before_it_had_a_config_begins_again(heat, tmp_path):
    (tmp_path / "r" / "state").mkdir(parents=True)
    (tmp_path / "r" / "spec.yaml").write_text("half a sp")
    assert len(fit(heat, steps=1, out=tmp_path / "r", samples=0).metrics) == 1


def test_a_file_in_the_way_is_refused(heat, tmp_path):
    (tmp_path / "r").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        fit(heat, steps=1, out=tmp_path / "r", force=True)


def test_a_folder_that_cannot_be_made_is_told(heat, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        fit(heat, steps=1, out=tmp_path / "file" / "r")


def test_the_default_folder_is_named_after_the_problem(heat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = fit(heat, steps=1, samples=0)
    two = fit(heat, steps=1, samples=0)
    assert one.path.parent.name == "runs"
    assert one.path.name.startswith("small_heat-")
    assert one.path != two.path


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_asked_for_but_absent_is_told(heat, tmp_path):
    with pytest.raises(UsageError, match="no CUDA device"):
        fit(heat, steps=1, out=tmp_path / "r", device="cuda")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either steps or time"),
        ({"steps": 1, "time": "1m"}, "either steps or time"),
        ({"steps": 1, "device": "tpu"}, "one of cpu, cuda"),
        ({"steps": 1, "precision": "half"}, "one of float64, float32, tf32, bf16"),
        ({"steps": 1, "threads": 0}, "not above zero"),
        ({"steps": 1, "seed": -1}, "not in"),
        ({"steps": 1, "backbone": "pti"}, "Did you mean 'pit'"),
        ({"steps": 1, "physics": False}, "there must be data"),
        ({"steps": 1, "settings": {"constraints": "firm"}}, "one of auto, hard, soft"),
        ({"steps": 1.5}, "steps: 1.5 is not a whole number; give one from 1 to 1000000000"),
        ({"steps": True}, "steps: True is not a whole number"),
        ({"steps": "3"}, "steps: '3' is not a whole number"),
        ({"steps": 2**70}, r"steps: 1180591620717411303424 is not in \[1, 1000000000\]"),
        ({"steps": 0}, "steps: 0 is not above zero"),
        ({"steps": torch.tensor([1, 2])}, "steps: .* is not a whole number"),
        ({"time": b"5m"}, "time: b'5m' is not a length of time"),
        ({"steps": 1, "physics": "no"}, "physics: 'no' is neither True nor False"),
        ({"steps": 1, "compile": "yes"}, "compile: 'yes' is neither True nor False"),
        ({"steps": 1, "force": 1}, "force: 1 is neither True nor False"),
        ({"steps": 1, "profile": np.ones(2, bool)}, "profile: .* is neither True nor False"),
        ({"steps": 1, "threads": 1.5}, "threads: 1.5 is not a whole number"),
        ({"steps": 1, "threads": "2"}, "threads: '2' is not a whole number"),
        ({"steps": 1, "seed": 1.5}, "seed: 1.5 is not a whole number"),
        ({"steps": 1, "seed": "a"}, "seed: 'a' is not a whole number"),
        ({"steps": 1, "samples": "3"}, "samples: '3' is not a whole number"),
        ({"steps": 1, "precision": []}, r"precision: \[\] is not one of"),
        ({"steps": 1, "device": ["cpu"]}, "device: .* is not one of cpu, cuda"),
        ({"steps": 1, "backbone": ""}, "'' is not a backbone"),
        ({"steps": 1, "progress": 3}, "progress: 3 is not a function"),
        ({"steps": 1, "data": 3}, "data: 3 is not a path; give .* or a piop.datasets.Dataset"),
        ({"steps": 1, "data": {}}, "data: {} is not a path"),
        ({"steps": 1, "settings": 3}, "settings: 3 is not a mapping"),
        ({"steps": 1, "settings": {3: 2}}, "settings: the key 3 is not a name"),
        ({"steps": 1, "settings": {"functions": 2**70}}, "functions: .* is more than 1000000"),
        ({"steps": 1, "init_from": 3}, "init_from: 3 is not a path"),
        ({"steps": 1, "out": 3}, "out: 3 is not a path"),
        ({"steps": 1, "out": b"rf"}, "out: b'rf' is not a path"),
        ({"steps": 1, "out": "a\0b"}, r"out: 'a\\x00b': cannot be used as a path"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(heat, tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        fit(heat, **{"out": tmp_path / "r", **arguments})
    assert not any(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(heat, tmp_path):
    run = fit(heat, steps=np.int64(1), seed=np.uint8(3), samples=0, out=tmp_path / "r")
    assert (run.config.budget.steps, run.config.machine.seed) == (1, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 2.5}, "steps: 2.5 is not a whole number"),
        ({"settings": {3: 2}}, "settings: the key 3 is not a name"),
        ({"profile": "no"}, "profile: 'no' is neither"),
        ({"path": b"r"}, "path: b'r' is not a path"),
    ],
)
def test_wrong_arguments_of_a_resume_are_refused(trained, arguments, message):
    with pytest.raises(UsageError, match=message):
        resume(**{"path": trained.path, "samples": 0, **arguments})


def test_what_cannot_be_trained_yet_is_refused_with_the_reason(tmp_path):
    breaking = Problem(
        name="breaking",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) + d(u**2/2, x) = 0"],
        initial={"u": "sin(2*pi*x)"},
        boundary={"x": "periodic"},
    )
    with pytest.raises(NotSupportedError, match="derivatives do not exist at shocks"):
        fit(breaking, steps=1, out=tmp_path / "r")


def test_resume_after_the_end_changes_nothing(heat, tmp_path):
    run = fit(heat, steps=3, out=tmp_path / "r", samples=0)
    before = strip(run)
    again = resume(tmp_path / "r", samples=0)
    assert strip(again) == before


def test_a_new_budget_trains_on(heat, tmp_path):
    fit(heat, steps=3, out=tmp_path / "r", samples=0)
    run = resume(tmp_path / "r", steps=7, samples=0)
    assert run.metrics[-1]["step"] == 7
    assert Run.load(tmp_path / "r").config.budget.steps == 7


@pytest.mark.parametrize("budget", [{"steps": 2}, {"time": 0.001}])
def test_a_budget_that_is_spent_already_is_refused(heat, tmp_path, budget):
    fit(heat, steps=3, out=tmp_path / "r", samples=0)
    before = (tmp_path / "r" / "config.json").read_bytes()
    with pytest.raises(UsageError, match="give more in all"):
        resume(tmp_path / "r", **budget, samples=0)
    assert (tmp_path / "r" / "config.json").read_bytes() == before


def test_a_resume_with_a_changed_spec_is_refused(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    spec = tmp_path / "r" / "spec.yaml"
    spec.write_text(spec.read_text().replace("0.05", "0.06"))
    with pytest.raises(UsageError, match="was changed since the run began"):
        resume(tmp_path / "r", steps=5)


def test_a_resume_without_a_spec_is_refused(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    (tmp_path / "r" / "spec.yaml").unlink()
    with pytest.raises(UsageError, match="is missing"):
        resume(tmp_path / "r")


@pytest.mark.parametrize("action", [resume, Run.load])
def test_what_is_no_run_is_refused(tmp_path, action):
    with pytest.raises(UsageError, match="no such run folder"):
        action(tmp_path / "absent")
    with pytest.raises(UsageError, match="is not a run folder"):
        action(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="not the config of a run"):
        action(tmp_path)


def test_a_newer_format_says_which_version_it_needs(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    folder = RunFolder(tmp_path / "r")
    record = folder.read_config()
    record["format"], record["versions"]["piop"] = 99, "9.9"
    folder.rewrite_config(record)
    with pytest.raises(UsageError, match=r"format 99.*piop 9\.9"):
        Run.load(tmp_path / "r")


def test_a_run_without_weights_says_what_to_do(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
    (tmp_path / "r" / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="piop resume"):
        Run.load(tmp_path / "r")


def test_weights_of_another_network_are_refused(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "1", samples=0)
    fit(heat, steps=1, out=tmp_path / "2", samples=0, settings={"width": 16})
    other = (tmp_path / "2" / "model.safetensors").read_bytes()
    (tmp_path / "1" / "model.safetensors").write_bytes(other)
    with pytest.raises(UsageError, match=r"model.safetensors: is damaged"):
        Run.load(tmp_path / "1")
    (tmp_path / "1" / "checksums.json").unlink()
    with pytest.raises(UsageError, match="do not fit this version's network"):
        Run.load(tmp_path / "1")


def solutions(count=12):
    """Exact solutions for u0 = cos(πx + φ)."""
    times, x = torch.linspace(1, 2, 5).double(), torch.arange(16).double() / 8
    sensors = torch.arange(8).double() / 4
    phase = torch.arange(count).double()[:, None] * 0.7
    values = torch.cos(torch.pi * sensors + phase)[..., None]
    decay = torch.exp(-0.05 * torch.pi**2 * (times - 1))
    u = decay[None, :, None] * torch.cos(torch.pi * x + phase)[:, None]
    points = sensors[None, :, None].expand(count, -1, -1)
    return Dataset({"u0": FunctionSamples(points, values)}, {"t": times, "x": x}, {"u": u})


def test_data_alone_are_learned_and_judged_on_what_was_held_out(heat, tmp_path):
    data = solutions()
    run = fit(heat, steps=60, out=tmp_path / "r", data=data, physics=False)
    assert set(run.metrics[0]) >= {"loss", "data"}
    assert "residual" not in run.metrics[0]
    assert run.metrics[-1]["data"] < 0.2 * run.metrics[0]["data"]
    found = json.loads((tmp_path / "r" / "evaluation.json").read_text())
    assert found["samples"] == 1
    assert found["relative_l2"]["mean"] < found["baselines"]["stays at u0"]


def test_held_out_data_are_never_trained_on(heat):
    trained, held = training_and_held_out(heat, solutions(30), seed=3)
    assert len(trained) == 27
    assert len(held) == 3
    both = torch.cat([trained.values["u"], held.values["u"]])
    assert len(both.unique(dim=0)) == 30
    again = training_and_held_out(heat, solutions(30), seed=3)[1]
    assert torch.equal(again.values["u"], held.values["u"])


def test_physics_and_data_train_together(heat, tmp_path):
    run = fit(heat, steps=2, out=tmp_path / "r", data=solutions(), samples=2)
    assert set(run.metrics[0]) >= {"residual", "data"}


def test_too_few_data_are_refused(heat, tmp_path):
    with pytest.raises(UsageError, match="at least two"):
        fit(heat, steps=1, out=tmp_path / "r", data=solutions(1))


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_values_without_a_size_are_refused_before_anything_is_learned(heat, tmp_path, value):
    data = solutions()
    data.values["u"][3, 2, 1] = value
    with pytest.raises(DataError, match="'u' is "):
        fit(heat, steps=1, out=tmp_path / "r", data=data)
    data = solutions()
    data.inputs["u0"].values[5, 2, 0] = value
    with pytest.raises(DataError, match="'u0' is "):
        fit(heat, steps=1, out=tmp_path / "r", data=data)
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_resume_with_other_data_is_refused(heat, tmp_path):
    fit(heat, steps=1, out=tmp_path / "r", data=solutions(), samples=0)
    with pytest.raises(UsageError, match="given its data in Python"):
        resume(tmp_path / "r")
    with pytest.raises(UsageError, match="has changed"):
        resume(tmp_path / "r", data=solutions(13))
    other_inputs = solutions()
    other_inputs.inputs["u0"].values[3, 2] += 1
    with pytest.raises(UsageError, match="has changed"):
        resume(tmp_path / "r", data=other_inputs)
    assert math.isfinite(
        resume(tmp_path / "r", data=solutions(), steps=2, samples=0).metrics[-1]["loss"]
    )


def test_data_in_a_file_are_split_the_same_way_when_loaded_again(heat, tmp_path):
    generate(heat, 12, tmp_path / "d.nc")
    run = fit(heat, steps=3, out=tmp_path / "r", data=tmp_path / "d.nc", physics=False)
    first = json.loads((tmp_path / "r" / "evaluation.json").read_text())["relative_l2"]
    assert Run.load(run.path).evaluate(write=False)["relative_l2"] == first
    assert resume(run.path, steps=4, samples=0).metrics[-1]["step"] == 4


def test_held_out_data_are_judged_as_they_are_or_not_at_all(heat, tmp_path):
    path = tmp_path / "d.nc"
    generate(heat, 12, path)
    run = fit(heat, steps=1, out=tmp_path / "r", data=path, physics=False, samples=2)
    for given in ({"at": {"t": [2.0], "x": [0.1, 0.2]}}, {"sensors": {"u0": (4, "grid")}}):
        with pytest.raises(UsageError, match="have points and sensors of their own"):
            run.evaluate(2, write=False, **given)
    with pytest.raises(UsageError, match="at, sensors and seed are for inputs that are drawn"):
        run.evaluate(2, seed=5, write=False)
    before = (run.path / "config.json").read_bytes()
    path.unlink()
    generate(heat, 12, path, seed=3)
    with pytest.raises(UsageError, match="has changed since the run began"):
        resume(run.path, steps=3, learning_rate=0.5)
    with pytest.raises(DataError, match=r"has changed since the run began.*--data"):
        Run.load(run.path).evaluate(write=False)
    assert (run.path / "config.json").read_bytes() == before
    assert Run.load(run.path).evaluate(write=False, data=path)["samples"] == 12


@pytest.mark.parametrize("physics", [True, False])
def test_data_may_lack_an_auxiliary_unknown(tmp_path, physics):
    text = HEAT.replace(
        "unknowns: [u]", "unknowns: [u]\nauxiliary: {p: {equation: -lap(p) = u, mean: 0}}"
    )
    problem = Problem.from_yaml(text)
    generate(problem, 12, tmp_path / "d.nc")
    with xr.open_dataset(tmp_path / "d.nc", engine="h5netcdf") as whole:
        whole.drop_vars("p").to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    own = {"data": tmp_path / "u.nc", "physics": physics, "samples": 0}
    run = fit(problem, steps=2, out=tmp_path / "r", **own)
    assert math.isfinite(run.metrics[-1]["loss"])


def test_a_name_that_files_reserve_is_refused_before_the_training(tmp_path):
    text = HEAT.replace("[u]", "[point]").replace("u: u0", "point: u0")
    problem = Problem.from_yaml(text.replace("(u)", "(point)"))
    with pytest.raises(DataError, match="'point' is a name that data files use"):
        fit(problem, steps=1, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_data_of_a_problem_without_inputs_are_judged(tmp_path):
    problem = Problem(
        name="cooling",
        time={"t": [0, 1]},
        space={"x": [0, 2]},
        unknowns=["u"],
        equations=["dt(u) = 0.05*dxx(u)"],
        initial={"u": "cos(pi*x)"},
        boundary={"x": "periodic"},
        save={"t": 3, "x": 8},
    )
    generate(problem, 24, tmp_path / "d.nc", noise=0.01)
    run = fit(problem, steps=1, out=tmp_path / "r", data=tmp_path / "d.nc", physics=False)
    errors = run.evaluate(write=False)["relative_l2"]["per_sample"]
    assert len(errors) == 2
    assert run.evaluate(write=False, data=tmp_path / "d.nc")["samples"] == 24


def test_an_evaluation_without_the_data_of_the_run_keeps_the_one_before(heat, tmp_path):
    path, data = tmp_path / "r", tmp_path / "d.nc"
    generate(heat, 12, data)
    fit(heat, steps=1, out=path, data=data, physics=False, samples=2)
    before = (path / "evaluation.json").read_bytes()
    data.unlink()
    run = Run.load(path)
    for action in (run.evaluate, run.discretisation):
        with pytest.raises(DataError, match=r"d.nc\) are not there.*--data FILE") as caught:
            action()
        assert caught.value.exit_code == 2
    assert (path / "evaluation.json").read_bytes() == before
    generate(heat, 2, tmp_path / "new.nc", seed=7)
    assert run.evaluate(data=tmp_path / "new.nc")["relative_l2"]["mean"] > 0


def test_training_whose_data_go_ends_well_with_a_warning(heat, tmp_path, monkeypatch):
    def gone(*args):
        raise DataError("d.nc: there is no such file")

    monkeypatch.setattr("piop.run.sources._first", gone)
    run = fit(heat, steps=1, out=tmp_path / "r", data=solutions(), physics=False)
    found = json.loads((run.path / "evaluation.json").read_text())
    assert found["relative_l2"] is None
    assert found["warnings"] == ["not evaluated: d.nc: there is no such file"]
    assert found["steps"] == 1
    assert [p.name for p in draw_run(run)] == ["losses.png", "report.html"]


@pytest.mark.slow
@pytest.mark.filterwarnings("error:the training step stays eager:RuntimeWarning")
def test_a_step_with_soft_initial_data_compiles(tmp_path) -> None:
    sizes = {"blocks": 1, "width": 16, "heads": 2, "content": 2}
    points = {"functions": 2, "queries": 8, "boundary": 6}
    settings = {"constraints": "soft", **sizes, **points}
    heat = Problem.from_file("heat")
    compiled, eager = (
        fit(heat, steps=1, compile=way, samples=0, settings=settings, out=tmp_path / f"{way}")
        for way in (True, False)
    )
    found, expected = (run.metrics[0]["loss"] for run in (compiled, eager))
    assert found == pytest.approx(expected, rel=1e-5)


DARCY = """
piop: 1
name: small_darcy
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  g: {of: [x, y], law: gaussian_random_field, tau: 5, alpha: 3, hidden: true}
  a: {of: [x, y], expression: "where(g > 0, 9, 1)", smooth: false}
equations: ["-div(a*grad(u)) = 1"]
boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}}
sensors: {a: {count: [4, 4], place: grid}}
save: {x: 4, y: 4}
"""


@pytest.fixture(scope="module")
def blocks():
    """Not Darcy's law but something to learn: the first k sensors are high, u a bump k high."""
    axis = torch.linspace(0.1, 0.9, 4).double()
    mesh = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(1, 16, 2)
    high = torch.arange(40) % 16 + 1
    a = 1.0 + 8.0 * (torch.arange(16) < high[:, None]).double()[..., None]
    bump = torch.sin(torch.pi * axis)[:, None] * torch.sin(torch.pi * axis)
    u = high[:, None, None] * bump
    inputs = {"a": FunctionSamples(mesh.expand(40, -1, -1), a)}
    return Dataset(inputs, {"x": axis, "y": axis}, {"u": u})


def test_a_steady_problem_with_walls_and_jumps_is_trained_on_data_alone(tmp_path, blocks):
    problem = Problem.from_yaml(DARCY)
    run = fit(
        problem, steps=60, data=blocks, physics=False, out=tmp_path / "r", device="cpu",
        settings={"width": 16, "blocks": 1, "heads": 2, "data_functions": 8},
    )  # fmt: skip
    found = json.loads((run.path / "evaluation.json").read_text())
    assert found["relative_l2"]["mean"] < 0.5 * found["baselines"]["zero"]
    assert found["residual"] == {}  # the equations cannot be evaluated yet
    assert found["per_time"] is None
    statistics = json.loads((run.path / "config.json").read_text())["statistics"]
    trained = training_and_held_out(problem, blocks, 0)[0]
    assert statistics["input_mean"]["a"] == pytest.approx(float(trained.inputs["a"].values.mean()))
    assert statistics["channel_mean"] == pytest.approx([float(trained.values["u"].mean())])
    again = Run.load(run.path).predict({"a": blocks.inputs["a"]}, {"x": [0.5], "y": [0.5]})
    assert again["u"].shape == (40, 1, 1)


def test_the_equations_of_that_problem_are_refused_with_the_reason(tmp_path, blocks):
    for data in (None, blocks):
        with pytest.raises(
            NotSupportedError, match=r"rough coefficient a, because .* --no-physics"
        ):
            fit(Problem.from_yaml(DARCY), steps=1, data=data, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()
