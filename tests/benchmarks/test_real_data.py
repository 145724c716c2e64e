"""The comparison on published data: equal conditions, right arithmetic, nothing done twice."""

import json
import sys
from itertools import chain

import numpy as np
import pytest
import scipy.stats
import torch

from piop.errors import UsageError
from piop.fields import FunctionSamples


@pytest.fixture
def files(tmp_path):
    """A folder of small files of both layouts: u is the mean of x, or x that decays."""
    generator = torch.Generator().manual_seed(0)
    for name, count in (("train", 12), ("test", 3)):
        for n in (16, 32) if name == "test" else (16,):
            x = torch.rand(count, n, n, generator=generator) < torch.rand(
                count, 1, 1, generator=generator
            )
            y = x.float().mean((1, 2), keepdim=True).expand(-1, n, n).contiguous()
            torch.save({"x": x, "y": y}, tmp_path / f"neuralop_darcy_{name}_{n}.pt")
        x = torch.randn(count, 16, generator=generator, dtype=torch.float64)
        y = x[:, None] * torch.linspace(1, 0.5, 17).double()[:, None]
        torch.save(
            {"x": x, "y": y, "visc": torch.tensor([[0.01]])},
            tmp_path / f"neuralop_burgers_{name}_16.pt",
        )
    return tmp_path


@pytest.fixture
def command(load, monkeypatch, files, tmp_path):
    """Run the script on the small files: exit code and result."""
    script = load("real_data")
    out = tmp_path / "result.json"

    def run(*words):
        given = ["real_data.py", "--data", str(files), "--out", str(out), "--epochs", "1", *words]
        monkeypatch.setattr(sys, "argv", given)
        return script.main(), json.loads(out.read_text()) if out.exists() else None

    return run


def test_differences_are_paired_by_sample_with_students_interval(load):
    compare = load("real.compare")
    generator = np.random.default_rng(0)
    theirs = generator.uniform(0.05, 0.5, 20)  # samples differ more than networks do
    ours = theirs - 0.01 + generator.normal(0, 0.003, 20)
    found = compare.paired(ours.tolist(), theirs.tolist())
    expected = scipy.stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert found.mean - found.half == pytest.approx(expected.low)
    assert found.mean + found.half == pytest.approx(expected.high)
    assert found.mean + found.half < 0  # ahead, which unpaired intervals would not show
    assert compare.paired([0.2], [0.3]).half is None
    with pytest.raises(ValueError, match="not the same ones"):
        compare.paired([0.1, 0.2], [0.1])


def cell(network, seed, errors, **more):
    return {"problem": "darcy", "network": network, "seed": seed, "errors": {"16": errors},
            "parameters": 10, "rate": 1e-3, "cpu_seconds": 2.0, **more}  # fmt: skip


def test_rows_are_means_over_samples_and_seeds_best_first(load):
    compare, theirs = load("real.compare"), load("real.networks").THEIRS
    cells = [
        cell(theirs, 0, [0.2, 0.4]), cell(theirs, 1, [0.2, 0.6]),
        cell("a", 0, [0.1, 0.1]), cell("a", 1, [0.1, 0.3]), cell("a", 2, [0.9, 0.9]),
        cell("b", 5, [0.1, 0.1]),
    ]  # fmt: skip
    rows = compare.summarise(cells)
    assert [row["network"] for row in rows] == ["b", theirs, "a"]
    _, rival, ours = rows
    assert rival["mean"] == pytest.approx(0.35)
    assert rival["over_seeds"] == pytest.approx(np.std([0.3, 0.4], ddof=1))
    assert ours["mean"] == pytest.approx((0.1 + 0.2 + 0.9) / 3)
    # the difference knows the two seeds that both have: samples (0.1, 0.2) less (0.2, 0.5)
    assert ours["difference"] == pytest.approx(-0.2)
    assert ours["ratio"] == pytest.approx(0.15 / 0.35)
    assert ours["half_interval"] == pytest.approx(12.706 * 0.1, rel=1e-4)  # t of one degree
    assert rows[0]["difference"] is None  # no seed in common
    assert rival["difference"] is None
    text = compare.markdown(rows)
    assert "| -0.2000 ± 1.2706 |" in text
    assert text.count("\n") == 4


def test_all_networks_see_the_same_samples_in_the_same_order(load, monkeypatch):
    training, problems = load("real.training"), load("real.problems")
    inputs = {"a": FunctionSamples(torch.zeros(10, 1, 1), torch.zeros(10, 1, 1))}
    samples = problems.Samples(inputs, (torch.zeros(4),), torch.arange(40.0).reshape(10, 4) + 1)
    seen = []

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.level = torch.nn.Parameter(torch.zeros(()))

        def forward(self, part):
            seen[-1].append(part.values[:, 0].tolist())
            return self.level.expand_as(part.values)

    for seed in (1, 1, 2):
        torch.rand(len(seen) * 7 + 1)  # whatever a network drew when it was built
        seen.append([])
        training.train(Constant(), samples, training.Recipe(epochs=2, batch=4), 1e-3, seed)
    assert seen[0] == seen[1] != seen[2]
    assert [len(batch) for batch in seen[0]] == [4, 4, 2] * 2
    assert sorted(chain(*seen[0][:3])) == samples.values[:, 0].tolist()


def test_the_loop_learns_what_its_loss_measures(load):
    training, problems = load("real.training"), load("real.problems")
    values = torch.arange(1.0, 9.0)[:, None].expand(-1, 5).contiguous()
    inputs = {"a": FunctionSamples(torch.zeros(8, 1, 1), values[:, :1, None])}
    samples = problems.Samples(inputs, (torch.zeros(5),), values)

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.nn.Parameter(torch.zeros(()))

        def forward(self, part):
            return self.slope * part.inputs["a"].values[..., 0].expand_as(part.values)

    line = Line()
    assert training.judge(line, samples).tolist() == [1.0] * 8
    training.train(line, samples, training.Recipe(epochs=60, batch=4, weight_decay=0.0), 0.1, 0)
    slope = line.slope.item()
    assert slope == pytest.approx(1.0, abs=0.02)
    left = training.judge(line, samples).tolist()
    assert left == pytest.approx([abs(1 - slope)] * 8, abs=1e-6)  # float32


def test_trials_are_split_off_the_training_data(load):
    problems = load("real.problems")
    inputs = {"a": FunctionSamples(torch.zeros(10, 1, 1), torch.zeros(10, 1, 1))}
    samples = problems.Samples(inputs, (torch.zeros(1),), torch.arange(10.0)[:, None])
    learned, judged = problems.split(samples, 0.2)
    assert (len(learned), len(judged)) == (8, 2)
    assert sorted([*learned.values[:, 0].tolist(), *judged.values[:, 0].tolist()]) == [*range(10)]


def test_one_seed_of_every_network_comes_first(load):
    script, theirs = load("real_data"), load("real.networks").THEIRS
    cells = script.plan(["darcy"], [0, 1, 0])
    half = len(cells) // 2
    assert {seed for *_, seed in cells[:half]} == {0}
    assert cells[0] == ("darcy", theirs, 0)
    assert script.plan(["darcy/deeponet"], [3]) == [("darcy", "deeponet", 3)]
    with pytest.raises(UsageError, match=r"'dorcy' is no cell; give problems .*darcy"):
        script.plan(["dorcy"], [0])


def test_cells_are_kept_gone_on_with_and_not_done_twice(command, load):
    code, first = command("--cells", "deeponet", "--seeds", "0")
    assert code == 0
    assert [(c["problem"], c["seed"]) for c in first["cells"]] == [
        ("darcy", 0),
        ("burgers_wang", 0),
    ]
    assert {k: len(v) for k, v in first["cells"][0]["errors"].items()} == {"16": 3, "32": 3}
    assert len(first["rates"]["darcy/deeponet"]) == len(load("real_data").RATES)
    best = min(first["rates"]["darcy/deeponet"].items(), key=lambda pair: pair[1])[0]
    assert first["cells"][0]["rate"] == float(best)
    code, second = command("--cells", "darcy/deeponet", "--seeds", "0", "1")
    assert code == 0
    assert second["cells"][:2] == first["cells"]  # kept to the digit, so not trained again
    assert [c["seed"] for c in second["cells"]] == [0, 0, 1]
    assert second["rates"] == first["rates"]


def test_a_loss_that_is_not_finite_ends_the_training(load):
    training, problems = load("real.training"), load("real.problems")
    inputs = {"a": FunctionSamples(torch.zeros(4, 1, 1), torch.zeros(4, 1, 1))}
    samples = problems.Samples(inputs, (torch.zeros(2),), torch.ones(4, 2))

    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.level = torch.nn.Parameter(torch.tensor(torch.inf))

        def forward(self, part):
            return self.level.expand_as(part.values)

    with pytest.raises(training.Diverged):
        training.train(Broken(), samples, training.Recipe(), 1e-3, 0)


def test_where_the_best_rate_diverges_the_next_is_taken(command, load, monkeypatch, capsys):
    script = load("real_data")
    train, tried = script.train, []

    def sometimes(entrant, samples, recipe, rate, seed):
        if seed != script.TRIAL_SEED:
            tried.append(rate)
            if len(tried) == 1:
                raise script.Diverged
        return train(entrant, samples, recipe, rate, seed)

    monkeypatch.setattr(script, "train", sometimes)
    code, found = command("--cells", "darcy/deeponet", "--seeds", "0")
    assert code == 0
    first, second = tried
    rates = found["rates"]["darcy/deeponet"]
    assert first != second == found["cells"][0]["rate"]
    assert rates.pop(str(first)) == script.WORST
    assert rates[str(second)] == min(rates.values())
    assert f"diverged at rate {first:g}" in capsys.readouterr().out


def test_a_result_of_another_setup_is_refused(command, capsys):
    assert command("--cells", "darcy/deeponet", "--seeds", "0")[0] == 0
    code, _ = command("--cells", "darcy/deeponet", "--seeds", "0", "--epochs", "2")
    assert code == 2
    assert "'epochs': 1" in capsys.readouterr().err


def test_files_that_are_not_there_are_told(command, capsys, tmp_path):
    code, _ = command("--data", str(tmp_path / "no"), "--cells", "darcy/deeponet")
    assert code == 2
    assert "no such file; give the folder with --data" in capsys.readouterr().err


def test_their_network_reads_the_input_on_the_grid_and_along_the_time(load, files):
    pytest.importorskip("neuralop")
    problems, networks = load("real.problems"), load("real.networks")
    for name, grid in (("darcy", (16, 16)), ("burgers_wang", (17, 16))):
        loaded = problems.load(name, files)
        entrant = networks.build(networks.THEIRS, loaded, 0)
        given = []
        entrant.network.fno.register_forward_pre_hook(lambda _, args, g=given: g.append(args[0]))
        part = loaded.train.take(torch.arange(2))
        assert entrant(part).shape == (2, *grid)
        (seen,) = given
        assert seen.shape == (2, 1, *grid)
        (samples,) = part.inputs.values()
        own = samples.values[..., 0]
        mean, std = entrant.network.mean, entrant.network.std
        rows = ((own - mean) / std).reshape(2, -1, 16)
        assert torch.allclose(seen[:, 0, 0], rows[:, 0])
        assert torch.allclose(seen[:, 0, -1], rows[:, -1])


def test_piops_fno_of_their_sizes_has_as_many_parameters(load, files):
    pytest.importorskip("neuralop")
    problems, networks = load("real.problems"), load("real.networks")
    for name in ("darcy", "burgers_wang"):
        loaded = problems.load(name, files)
        sizes = [networks.build(n, loaded, 0).size for n in (networks.THEIRS, "fno, their sizes")]
        assert sizes[0] == sizes[1] == 671_113
