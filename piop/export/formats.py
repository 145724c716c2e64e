"""File formats of exported predictions: ONNX, and the archives of ``torch.export``."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.fx import GraphModule

from piop.errors import NotSupportedError
from piop.export.prediction import Prediction
from piop.export.real_graph import Rule, acos_by_newton, atan_by_newton
from piop.export.sensors import FixedSensors, FreeSensors, SensorArguments
from piop.problem import Problem

Evaluate = Callable[[Sequence[Tensor]], list[Tensor]]
"""The graph of a file: its input tensors to its outputs."""

METADATA = "piop.json"
"""Name of the metadata in a file."""

FreeSizes = tuple[dict[int, Any], ...]
"""For each input the axes whose sizes are free."""


class ExportFormat(ABC):
    """A file format.

    Attributes:
        name: Its name on the command line.
        suffix: Ending of its files.
        packages: What it needs beside piop, in the order in which it is imported.
        remedy: What to use where a run cannot be exported to it.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str]

    @abstractmethod
    def sensors(
        self, problem: Problem, needed: Sequence[str], positions: Mapping[str, Tensor]
    ) -> SensorArguments:
        """Choose how the input functions are given.

        Args:
            problem: The problem.
            needed: Inputs that are needed as functions.
            positions: Sensors of each function ``[M, d]``, where the format fixes them.
        """

    @property
    def rules(self) -> Mapping[Any, Rule]:
        """Operators that its runtime lacks → what stands for them."""
        return {}

    @abstractmethod
    def write(
        self,
        graph: GraphModule,
        example: Sequence[Tensor],
        prediction: Prediction,
        metadata: Mapping[str, Any],
        path: Path,
    ) -> None:
        """Write a graph.

        Args:
            graph: In real arithmetic.
            example: Tensors of its inputs.
            prediction: Describes inputs and outputs.
            metadata: JSON.
            path: The file.

        Raises:
            NotSupportedError: If the format has no such operator.
        """

    @abstractmethod
    def load(self, path: Path) -> Evaluate:
        """Load a file as its users do.

        Raises:
            NotSupportedError: If the runtime has no such operator.
        """


def free_sizes(prediction: Prediction) -> FreeSizes:
    """Name the axes of the inputs whose sizes are free."""
    dynamic = torch.export.Dim.DYNAMIC
    return tuple(
        {axis: dynamic for axis, size in enumerate(argument.shape) if isinstance(size, str)}
        for argument in prediction.inputs
    )


@final
class OnnxFormat(ExportFormat):
    """ONNX, which onnxruntime and others evaluate: sensors are fixed."""

    name, suffix = "onnx", ".onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")
    remedy = "use --format pt2, or piop predict"

    def sensors(
        self, problem: Problem, needed: Sequence[str], positions: Mapping[str, Tensor]
    ) -> FixedSensors:
        """See the base class."""
        return FixedSensors(problem, needed, positions)

    @property
    def rules(self) -> Mapping[Any, Rule]:
        """See the base class."""
        aten = torch.ops.aten
        arctan = dict.fromkeys((aten.atan.default, aten.arctan.default), atan_by_newton)
        return {aten.acos.default: acos_by_newton, **arctan}

    def write(
        self,
        graph: GraphModule,
        example: Sequence[Tensor],
        prediction: Prediction,
        metadata: Mapping[str, Any],
        path: Path,
    ) -> None:
        """See the base class."""
        import onnx
        from torch.onnx import OnnxExporterError

        inputs, outputs = prediction.inputs, prediction.outputs
        try:
            with quiet():
                program = torch.onnx.export(
                    graph,
                    tuple(example),
                    input_names=[argument.name for argument in inputs],
                    output_names=[argument.name for argument in outputs],
                    dynamic_shapes=free_sizes(prediction),
                    opset_version=OPSET,
                    dynamo=True,
                    verbose=False,
                )
        except OnnxExporterError as error:
            raise NotSupportedError(f"ONNX has no form of {_operator(error)}") from error
        assert program is not None  # noqa: S101 - without a file name it returns the program
        model = program.model_proto
        for values, arguments in ((model.graph.input, inputs), (model.graph.output, outputs)):
            for value, argument in zip(values, arguments, strict=True):
                _name_sizes(value, argument.shape)
        model.producer_name, model.producer_version = "piop", str(metadata["piop"])
        model.doc_string = str(metadata["title"])
        for node in model.graph.node:  # which source line a node is from, and names of a process
            del node.metadata_props[:]
        onnx.helper.set_model_props(model, {METADATA: as_json(metadata)})
        path.write_bytes(model.SerializeToString(deterministic=True))

    def load(self, path: Path) -> Evaluate:
        """See the base class."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its classes have no common base but this
            raise NotSupportedError(f"onnxruntime cannot load it: {first_line(error)}") from error
        names = [entry.name for entry in session.get_inputs()]

        def evaluate(tensors: Sequence[Tensor]) -> list[Tensor]:
            given = {n: t.contiguous().numpy() for n, t in zip(names, tensors, strict=True)}
            return [torch.from_numpy(found) for found in session.run(None, given)]

        return evaluate


OPSET = 20
"""Version of ONNX's operators; runtimes since October 2023 have it."""


def _name_sizes(value: Any, shape: Sequence[int | str]) -> None:
    for size, own in zip(value.type.tensor_type.shape.dim, shape, strict=True):
        size.Clear()
        if isinstance(own, str):
            size.dim_param = own
        else:
            size.dim_value = own


def _operator(error: BaseException) -> str:
    """Name the operator that an exporter's error is about, else give its first line."""
    found = re.search(r"OpOverload\(op='([^']+)'", str(error))
    return f"the operator {found[1]}" if found else f"its operations ({first_line(error)})"


def first_line(error: BaseException) -> str:
    """Return the first line of a message that is not blank."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


@final
class Pt2Format(ExportFormat):
    """The archive of ``torch.export``: sensors are free; Inductor compiles it for C++."""

    name, suffix = "pt2", ".pt2"
    remedy = "use piop predict"

    def sensors(
        self, problem: Problem, needed: Sequence[str], positions: Mapping[str, Tensor]
    ) -> FreeSensors:
        """See the base class."""
        return FreeSensors(problem, needed)

    def write(
        self,
        graph: GraphModule,
        example: Sequence[Tensor],
        prediction: Prediction,
        metadata: Mapping[str, Any],
        path: Path,
    ) -> None:
        """See the base class."""
        with quiet(), torch.no_grad():
            program = torch.export.export(
                graph, tuple(example), dynamic_shapes=free_sizes(prediction), strict=False
            )
            content = io.BytesIO()
            torch.export.save(program, content, extra_files={METADATA: as_json(metadata)})
        path.write_bytes(content.getvalue())

    def load(self, path: Path) -> Evaluate:
        """See the base class."""
        with quiet():
            module = torch.export.load(io.BytesIO(path.read_bytes())).module()

        @torch.no_grad()
        def evaluate(tensors: Sequence[Tensor]) -> list[Tensor]:
            return list(module(*tensors))

        return evaluate


FORMATS: Mapping[str, ExportFormat] = {entry.name: entry for entry in (OnnxFormat(), Pt2Format())}
"""Name → format."""


def as_json(metadata: Mapping[str, Any]) -> str:
    """Write metadata, the same text for the same content."""
    return json.dumps(metadata, indent=1, ensure_ascii=False, allow_nan=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep notes of torch's exporters on themselves from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
