"""Files: what they hold, what they need, and what is refused."""

import importlib.util
import json
import resource
import signal
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from piop.cli import cli
from piop.cli.failures import run_command
from piop.errors import ExportError, NotSupportedError, PiopError, UsageError
from piop.export import check, export_run
from piop.export import export as module
from piop.export.formats import FORMATS
from piop.export.prediction import Prediction
from piop.fields import FunctionSamples
from piop.generation import generate
from piop.models.core.base import Backbone
from piop.problem import Problem
from piop.run import Run
from piop.sampling.functions import NearestFunction
from piop.training.operator import Operator
from tests.run.test_star import SPEC as STAR
from tests.small_heat import HEAT

X = np.arange(8) / 4


def predicted(run, u0, queries, at=X):
    return run.predict({"u0": (at, u0)}, queries)["u"].values


@pytest.fixture
def inputs():
    """Sizes that no check of piop's own has."""
    generator = np.random.default_rng(0)
    phase = generator.uniform(0, 6, (7, 1))
    queries = np.stack([generator.uniform(1, 2, 23), generator.uniform(0, 2, 23)], -1)
    return phase, queries


def test_an_onnx_file_gives_the_prediction_at_the_sensors_of_the_run(heat, onnx_file, inputs):
    phase, queries = inputs
    session = onnxruntime.InferenceSession(str(onnx_file.path))
    u0 = np.cos(np.pi * X + phase)
    (u,) = session.run(["u"], {"u0": u0, "queries": queries})
    assert u.shape == (7, 23)
    assert np.abs(u - predicted(heat, u0, queries)).max() < 1e-12
    one = session.run(["u"], {"u0": u0[:1], "queries": queries[:1]})[0]
    assert np.abs(one - u[:1, :1]).max() < 1e-12


def test_a_pt2_file_gives_the_prediction_at_any_sensors(heat, pt2_file, inputs):
    phase, queries = inputs
    graph = torch.export.load(pt2_file.path).module()
    for count in (2, 5, 30):
        at = np.random.default_rng(count).uniform(0, 2, count)
        u0 = np.cos(np.pi * at + phase)
        points = torch.tensor(at)[None, :, None].expand(7, -1, -1)
        (u,) = graph(points, torch.tensor(u0), torch.tensor(queries))
        assert u.shape == (7, 23)
        expected = predicted(heat, u0, queries, at)
        assert np.abs(u.numpy() - expected).max() < 1e-6
        assert count == 2 or np.abs(u.numpy() - expected).max() < 1e-10


def test_hard_initial_data_hold_in_a_file(onnx_file):
    session = onnxruntime.InferenceSession(str(onnx_file.path))
    queries = np.stack([np.ones(5), np.linspace(0, 2, 5)], -1)
    (u,) = session.run(None, {"u0": np.cos(np.pi * X + 0.3)[None], "queries": queries})
    assert np.abs(u[0] - np.cos(np.pi * queries[:, 1] + 0.3)).max() < 1e-10


def read_metadata(onnx_file, pt2_file):
    model = onnx.load(onnx_file.path)
    extra = {"piop.json": ""}
    torch.export.load(pt2_file.path, extra_files=extra)
    in_onnx = {entry.key: entry.value for entry in model.metadata_props}["piop.json"]
    return model, json.loads(in_onnx), json.loads(extra["piop.json"])


def test_a_shape_is_told_by_as_many_numbers_as_in_the_run(make_run, tmp_path):
    data = tmp_path / "clouds.nc"
    generate(Problem.from_yaml(STAR), 3, data, seed=2, tolerance=0.2)
    small = {"width": 8, "blocks": 1, "heads": 2}
    run = make_run(STAR, data=data, physics=False, samples=0, settings=small)
    found = run.export(tmp_path / "star.pt2")
    shapes = {argument.name: argument.shape for argument in found.inputs}
    assert shapes["r_points"] == ("samples", 8, 1)
    assert shapes["r"] == ("samples", 8)


def test_a_file_says_what_it_is(heat, onnx_file, pt2_file):
    model, of_onnx, of_pt2 = read_metadata(onnx_file, pt2_file)
    for about in (of_onnx, of_pt2):
        assert about["spec"] == heat.problem.to_yaml()
        assert about["hash"] == heat.problem.hash
        assert about["dtype"] == "float64"
        assert about["domain"] == {"t": [1.0, 2.0], "x": [0.0, 2.0]}
        assert about["outputs"][0]["name"] == "u"
        assert about["outputs"][0]["units"] == ["K"]
        assert about["inputs"][-1]["units"] == ["s", "m"]
    assert of_onnx["sensors"] == {"u0": X[:, None].tolist()}
    assert of_pt2["sensors"] == {}
    assert [entry["name"] for entry in of_pt2["inputs"]] == ["u0_points", "u0", "queries"]
    assert of_pt2["inputs"][0]["shape"] == ["samples", "sensors_of_u0", 1]
    sizes = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == ["samples", 8]
    assert model.graph.output[0].name == "u"
    assert {n.op_type for n in model.graph.node}.isdisjoint({"DFT", "STFT", "Cholesky"})


@pytest.mark.slow
def test_the_same_run_gives_the_same_file(heat, onnx_file, folder):
    again = heat.export(folder / "again.onnx")
    assert again.path.read_bytes() == onnx_file.path.read_bytes()


def test_inputs_of_other_sensors_are_taken(heat, monkeypatch):
    at = np.array([0.1, 0.7, 1.5])
    found = module.sensor_positions(heat.problem, {"u0": (at, np.zeros(3))})
    assert found["u0"][:, 0].tolist() == at.tolist()
    several = {"u0": (np.stack([at, at + 0.1])[..., None], np.zeros((2, 3)))}
    with pytest.raises(UsageError, match="samples of u0 have different sensors"):
        module.sensor_positions(heat.problem, several)


def test_random_sensors_become_an_even_grid():
    problem = Problem.from_yaml(HEAT.replace("place: grid", "place: uniform"))
    assert module.sensor_positions(problem, None)["u0"][:, 0].tolist() == X.tolist()


class TestRefusals:
    """What is refused, and that nothing is left behind."""

    def refused(self, run, path, error=UsageError, **arguments):
        before = {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
        with pytest.raises(error) as caught:
            export_run(run, path, **arguments)
        assert {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()} == before
        return str(caught.value)

    def test_a_file_that_is_there(self, heat, tmp_path):
        (tmp_path / "f.onnx").write_text("mine")
        assert "exists already" in self.refused(heat, tmp_path / "f.onnx")

    def test_another_format(self, heat, tmp_path):
        found = self.refused(heat, tmp_path / "f.onnx", format="tflite")
        assert found == "format: 'tflite'; give one of onnx, pt2"
        assert "missing; give one of" in self.refused(heat, tmp_path / "f.bin")

    def test_an_ending_of_another_format(self, heat, tmp_path):
        found = self.refused(heat, tmp_path / "f.pt2", format="onnx")
        assert found.endswith("f.pt2: format onnx has the ending .onnx")

    def test_a_missing_extra(self, heat, tmp_path, monkeypatch):
        found = importlib.util.find_spec
        missing = lambda name: None if name == "onnxscript" else found(name)  # noqa: E731
        monkeypatch.setattr("piop.extras.find_spec", missing)
        message = self.refused(heat, tmp_path / "f.onnx")
        assert "needs onnxscript" in message
        assert "pip install 'piop[export]'" in message

    def test_a_place_that_is_not_there(self, heat, tmp_path):
        with pytest.raises(UsageError, match="there is no such folder"):
            export_run(heat, tmp_path / "no" / "f.onnx")

    def test_a_network_that_has_no_graph(self, heat, tmp_path, monkeypatch):
        monkeypatch.setattr(Backbone, "export_refusal", lambda self: "it draws numbers")
        found = self.refused(heat, tmp_path / "f.pt2", NotSupportedError)
        assert "backbone 'deeponet' cannot be exported to pt2: it draws numbers" in found
        assert found.endswith("; use piop predict")

    def test_a_decision_on_values(self, heat, tmp_path, monkeypatch):
        def deciding(self, *tensors):
            return tensors if bool((tensors[0] > 0).any()) else tensors[1:]

        monkeypatch.setattr(Prediction, "forward", deciding)
        found = self.refused(heat, tmp_path / "f.pt2", NotSupportedError)
        assert "its operations depend on sizes or values of its inputs" in found

    def test_a_graph_that_differs_from_the_run(self, heat, tmp_path, captured_once):
        other = replace(captured_once["pt2"], graph=graph_of(lambda x, u, q: (u[:, :1] * q[:, 0],)))
        captured_once["pt2"] = other
        found = self.refused(heat, tmp_path / "f.pt2", ExportError)
        assert "the exported graph differs from the run by" in found
        assert "1e-06 is allowed in float64; the file is not written" in found

    def test_an_operator_that_onnx_lacks(self, heat, tmp_path, captured_once):
        odd = graph_of(lambda u, q: (torch.special.i0(u[:, :1] * q[:, 0]),))
        captured_once["onnx"] = replace(captured_once["onnx"], graph=odd)
        found = self.refused(heat, tmp_path / "f.onnx", NotSupportedError)
        assert "ONNX has no form of" in found
        assert "i0" in found
        assert "use --format pt2" in found

    def test_an_operator_that_onnxruntime_lacks(self, heat, tmp_path, captured_once):
        odd = graph_of(lambda u, q: (torch.erf(u[:, :1] * q[:, 0]),))
        captured_once["onnx"] = replace(captured_once["onnx"], graph=odd)
        found = self.refused(heat, tmp_path / "f.onnx", NotSupportedError)
        assert "onnxruntime cannot load it" in found
        assert "Erf" in found

    def test_a_full_disk(self, heat, tmp_path, captured_once):
        """No file may be longer than a few kilobytes."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            found = self.refused(heat, tmp_path / "f.pt2", PiopError)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert "File too large; nothing was written" in found
        assert list(tmp_path.iterdir()) == []


def graph_of(function):
    """Make a graph of tensors that an export could have captured."""

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return function(*tensors)

    count = function.__code__.co_argcount
    graph = torch.fx.Graph()
    given = [graph.placeholder(f"x{i}") for i in range(count)]
    graph.output(graph.call_module("function", tuple(given)))
    return torch.fx.GraphModule({"function": Module()}, graph)


def test_a_spec_that_uses_the_name_of_the_points(make_run):
    run = make_run(HEAT.replace("u0", "queries"), backbone="deeponet", settings={"width": 8})
    with pytest.raises(NotSupportedError, match="is called 'queries', as the points are; rename"):
        module.capture(run, FORMATS["onnx"])


def test_functions_without_combinations_say_so():
    samples = FunctionSamples(torch.zeros(1, 2, 1), torch.zeros(1, 2, 1))
    with pytest.raises(NotSupportedError, match="NearestFunction: has no linear combinations"):
        NearestFunction(samples, (1.0,), (False,)).combined(torch.ones(1, 1))


def test_a_part_that_is_lost_in_the_graph_is_found(heat, monkeypatch):
    """As if hard constraints were dropped."""
    whole = Operator.forward

    def losing(self, inputs, queries, lift=None):
        lost = torch.compiler.is_exporting()
        return whole(self, inputs, queries, None if lost else lift)

    monkeypatch.setattr(Operator, "forward", losing)
    found = module.capture(heat, FORMATS["pt2"])
    agreement = check.compare(
        heat.model, found.prediction, found.cases, lambda tensors: found.graph(*tensors)
    )
    assert agreement.difference > 0.1


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_a_difference(heat, captured, number):
    of_run = captured["pt2"]

    def broken(tensors):
        return [torch.full((tensors[0].shape[0], len(tensors[-1])), number)]

    found = check.compare(heat.model, of_run.prediction, of_run.cases, broken)
    assert found.difference > 1e100


def test_another_shape_is_a_difference(heat, captured):
    of_run = captured["pt2"]
    found = check.compare(heat.model, of_run.prediction, of_run.cases, lambda tensors: [tensors[1]])
    assert found.difference == np.inf


def test_the_command_writes_a_file_and_says_what_it_takes(heat, tmp_path, captured_once, capsys):
    path = tmp_path / "f.pt2"
    arguments = ["export", str(heat.path), "--output", str(path)]
    assert run_command(cli, [*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "pt2"
    assert found["difference"] < found["tolerance"] == 1e-6
    assert path.exists()
    assert run_command(cli, arguments) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_command_refuses_a_run_without_weights(heat, tmp_path, capsys):
    from shutil import copytree

    copy = copytree(heat.path, tmp_path / "run")
    (copy / "model.safetensors").unlink()
    assert run_command(cli, ["export", str(copy), "--format", "onnx"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_run_that_is_loaded_exports_what_it_predicts(heat, pt2_file):
    assert Run.load(heat.path).problem.hash == heat.problem.hash
    assert pt2_file.agreement.difference < 1e-9
