"""Nothing in a run folder changes unnoticed, and one process at a time writes in it."""

import errno
import json
import logging
import os
import shutil
import sys

import pytest

from piop import generate
from piop.errors import DamagedFileError, TrainingError, UsageError
from piop.folder_lock import one_writer
from piop.problem import Problem
from piop.report import draw_run
from piop.run import Run, fit, resume
from piop.run.folder import MEMBERS


@pytest.fixture(scope="module")
def made(heat, tmp_path_factory):
    """A run of six steps with a checkpoint after each, in float64."""
    path = tmp_path_factory.mktemp("made") / "r"
    settings = {"checkpoint": 0.0}
    fit(heat, steps=6, out=path, samples=2, device="cpu", precision="float64", settings=settings)
    return path


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "r")


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["config.json", "spec.yaml", "model.safetensors"])
def test_damage_is_noticed_and_the_file_named(copy, name):
    damage(copy / name)
    with pytest.raises(DamagedFileError, match=rf"r/{name}: is damaged"):
        Run.load(copy)


@pytest.mark.parametrize("long", ["r" * 300, "r/" * 3000, "r\0"])
def test_a_path_that_cannot_be_is_refused(heat, long, tmp_path):
    path = tmp_path / long
    actions = (
        lambda: resume(path),
        lambda: Run.load(path),
        lambda: fit(heat, steps=1, out=path),
        lambda: fit(heat, steps=1, out=tmp_path / "r", init_from=path),
        lambda: generate(heat, 1, path.with_name(f"{path.name}.nc")),
    )
    refused = r"(path|out|init_from): '.*': cannot be used as a path \(.*; give another"
    for action in actions:
        with pytest.raises(UsageError, match=refused):
            action()
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_the_home_of_the_user_is_made_there(heat, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = fit(heat, steps=1, out="~/r", samples=0, device="cpu")
    assert run.path == tmp_path / "r"
    assert Run.load("~/r").path == run.path
    assert resume("~/r", steps=2, samples=0).path == run.path
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_an_evaluation_that_cannot_be_written_names_the_command_that_makes_it(copy, monkeypatch):
    def too_large(*args):
        raise OSError(errno.EFBIG, "File too large")

    run = Run.load(copy)
    monkeypatch.setattr("os.fsync", too_large)
    with pytest.raises(TrainingError, match=r"File too large.*go on with: piop evaluate .*r$"):
        run.evaluate(1)


def test_a_new_run_removes_the_files_of_a_run_alone(heat, copy):
    draw_run(Run.load(copy))
    (copy / "figures" / "losses.png").unlink()
    (copy / "figures" / "mine.png").write_text("mine")
    (copy / "figures" / "mine").mkdir()
    for name in ("state/mine.txt", "figures/mine/losses.png", "mine.txt"):
        (copy / name).write_text("mine")
    fit(heat, steps=1, out=copy, samples=0, force=True, device="cpu")
    names = {"mine.txt": "state", "mine.png": "figures", "mine": "figures"}
    for name, folder in names.items():
        assert (copy / folder / name).exists()
    assert sorted(p.name for p in (copy / "figures").iterdir()) == ["mine", "mine.png"]
    assert (copy / "figures" / "mine" / "losses.png").read_text() == "mine"
    assert (copy / "mine.txt").exists()
    assert not (copy / "evaluation.json").exists()


def test_figures_are_not_written_into_a_folder_that_is_linked(copy, tmp_path, caplog):
    (other := tmp_path / "other").mkdir()
    (other / "losses.png").write_text("mine")
    (copy / "figures").symlink_to(other)
    draw_run(Run.load(copy))
    assert (other / "losses.png").read_text() == "mine"
    assert [p.name for p in other.iterdir()] == ["losses.png"]
    assert (copy / "figures" / "losses.png").is_file()
    assert not (copy / "figures").is_symlink()
    assert f"was a link to {other}" in caplog.text


def test_a_file_in_the_way_of_the_figures_is_named(copy):
    (copy / "figures").write_text("mine")
    with pytest.raises(UsageError, match=r"figures: cannot be made .*Rename or remove"):
        draw_run(Run.load(copy))


def test_an_edited_config_is_noticed(copy):
    record = json.loads((copy / "config.json").read_text())
    record["statistics"]["input_std"] = {"u0": [10.0]}
    (copy / "config.json").write_text(json.dumps(record, indent=1) + "\n")
    for action in (Run.load, resume):
        with pytest.raises(DamagedFileError, match=r"config.json: is damaged, or was changed"):
            action(copy)


def test_a_folder_made_before_checksums_loads_with_a_note(copy, caplog):
    caplog.set_level(logging.INFO)
    (copy / "checksums.json").unlink()
    Run.load(copy)
    assert "has no checksums" in caplog.text
    resume(copy, steps=7, samples=0)
    for name in ("config.json", "spec.yaml", "model.safetensors", "metrics.jsonl"):
        assert name in json.loads((copy / "checksums.json").read_text())["files"]


def test_a_run_goes_on_from_the_checkpoint_before_to_the_same_weights(made, copy, caplog):
    damage(copy / "state" / "checkpoint.pt")
    run = resume(copy, samples=0)
    assert "state/checkpoint.pt: is damaged" in caplog.text
    assert "Going on from state/previous.pt, of step 5" in caplog.text
    assert [row["step"] for row in run.metrics] == [*range(1, 7)]
    weights = [(p / "model.safetensors").read_bytes() for p in (made, copy)]
    assert weights[0] == weights[1]


def test_damaged_weights_are_written_again_by_a_resume(made, copy, caplog):
    damage(copy / "model.safetensors")
    resume(copy, samples=2)
    assert "model.safetensors: is damaged" in caplog.text
    assert (copy / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    Run.load(copy)


def test_damaged_metrics_and_evaluation_are_named_with_their_line(copy):
    run = Run.load(copy)
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    lines[3] = lines[3].replace('"loss"', '"loss')
    (copy / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DamagedFileError, match=r"metrics.jsonl:4: is damaged"):
        _ = run.metrics
    (copy / "checksums.json").unlink()
    (copy / "evaluation.json").write_text('{"relative_l2":\n {"mean": 0.1,,}}')
    with pytest.raises(DamagedFileError, match=r"evaluation.json: .*line 2.*piop evaluate"):
        run.folder.read_json("evaluation.json")


def test_a_finished_run_says_so_and_is_left_as_it_is(copy, caplog):
    caplog.set_level(logging.INFO)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in copy.rglob("*") if p.is_file()}
    assert resume(copy).unchanged
    assert "has taken its 6 steps already; nothing is left to do" in caplog.text
    after = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in copy.rglob("*") if p.is_file()}
    assert after == before


def test_a_run_that_was_stopped_in_its_evaluation_is_evaluated_by_a_resume(copy):
    (copy / "evaluation.json").unlink()
    assert not resume(copy, samples=2).unchanged
    evaluation = json.loads((copy / "evaluation.json").read_text())
    assert evaluation["steps"] == 6


def test_what_a_resume_of_a_finished_run_is_asked_for_is_done(copy):
    assert not resume(copy, calibrate=20).unchanged
    found = json.loads((copy / "calibration.json").read_text())
    assert found["steps"] == 6
    assert not resume(copy, samples=3).unchanged
    assert json.loads((copy / "evaluation.json").read_text())["samples"] == 3


def test_an_evaluation_of_fewer_steps_is_not_taken_for_that_of_the_run(copy):
    resume(copy, steps=8, samples=0)
    assert not resume(copy, samples=2).unchanged
    assert json.loads((copy / "evaluation.json").read_text())["steps"] == 8


def test_while_one_process_writes_every_other_is_refused(heat, made, copy):
    run = Run.load(copy)
    actions = [
        lambda: resume(copy, steps=9),
        lambda: fit(heat, steps=1, out=copy, force=True),
        lambda: run.evaluate(1),
        lambda: run.discretisation(samples=1),
    ]
    before = sorted(p.name for p in copy.iterdir())
    with one_writer(copy):
        for action in actions:
            with pytest.raises(
                UsageError, match=rf"r: is being written by .*process {os.getpid()}"
            ):
                action()
        assert run.evaluate(1, write=False)["samples"] == 1
        assert Run.load(copy).metrics == run.metrics
    assert sorted(p.name for p in copy.iterdir()) == before
    assert (copy / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()


def test_a_run_that_began_in_the_same_folder_meanwhile_is_not_overwritten(
    heat, tmp_path, monkeypatch
):

    from piop.run import fit as _  # noqa: F401 - the module, not the function

    module = sys.modules["piop.run.fit"]
    plan = module.plan_job

    def slow(*arguments):
        monkeypatch.setattr(module, "plan_job", plan)
        fit(heat, steps=1, out=tmp_path / "r", samples=0)
        return plan(*arguments)

    monkeypatch.setattr(module, "plan_job", slow)
    with pytest.raises(UsageError, match="exists already"):
        fit(heat, steps=2, out=tmp_path / "r", samples=0)
    assert len(Run.load(tmp_path / "r").metrics) == 1


@pytest.mark.parametrize("removed", [1, 3, len(MEMBERS) - 2, len(MEMBERS) - 1])
def test_a_folder_half_emptied_by_force_can_be_replaced(heat, copy, removed):
    for path in (copy / name for name in MEMBERS[:removed]):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    assert len(fit(heat, steps=1, out=copy, samples=0, force=True).metrics) == 1


def test_a_spec_of_the_user_is_not_overwritten(heat, tmp_path):
    own = tmp_path / "mine" / "spec.yaml"
    own.parent.mkdir()
    own.write_text("# mine\n" + heat.to_yaml())
    before = own.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        fit(Problem.from_file(own), steps=1, out=own.parent, samples=0)
    assert own.read_bytes() == before


def test_a_full_disk_before_the_config_does_not_advise_a_resume(heat, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        TrainingError, match=r"r/spec.yaml: cannot be written .*Free some space, then give the same"
    ):
        fit(heat, steps=1, out=tmp_path / "r", samples=0)
    monkeypatch.undo()
    fit(heat, steps=1, out=tmp_path / "r", samples=0)
