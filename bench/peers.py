"""The runtimes that models are timed against, each at its best.

All get the same threads, inputs that are bound once and, where the interface
has it, outputs that are bound and reused; all their optimisations; float32
arithmetic; the sizes of the feed as constants where that helps them.

A peer is made from a Job and called without arguments; `results()` gives the
outputs by the model's names. Making one raises whatever the runtime raises for
a model that it does not take.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Job:
    """A model at one size. `torch`: makes the module that the file was exported
    from, its inputs in the order of the feed, its outputs in the file's order;
    nothing for a file of other origin."""

    path: Path
    feed: Arrays
    outputs: list[str]
    threads: int
    torch: Callable[[], Any] | None = None


class OnnxRuntime:
    def __init__(self, job: Job):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        )
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            job.path, options, providers=["CPUExecutionProvider"]
        )
        self.names = [o.name for o in self.session.get_outputs()]
        wanted = {i.name for i in self.session.get_inputs()}
        feed = {n: a for n, a in job.feed.items() if n in wanted}
        first = self.session.run(self.names, feed)
        self.binding = self.session.io_binding()
        self.held = []
        for name, array in feed.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            self.held.append(value)
            self.binding.bind_ortvalue_input(name, value)
        self.outputs = {}
        for name, array in zip(self.names, first):
            value = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(array))
            self.outputs[name] = value
            self.binding.bind_ortvalue_output(name, value)

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def results(self) -> Arrays:
        self()
        # A copy: the array would outlive the memory that it shows.
        return {name: value.numpy().copy() for name, value in self.outputs.items()}


class OpenVino:
    precision = "f32"  # of its arithmetic

    def __init__(self, job: Job):
        import openvino

        core = openvino.Core()
        model = core.read_model(str(job.path))
        names = [port.get_any_name() for port in model.inputs]
        model.reshape({name: list(job.feed[name].shape) for name in names})
        compiled = core.compile_model(
            model,
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": job.threads,
                "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": self.precision,
            },
        )
        taken = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        if taken != self.precision:
            raise ValueError(f"it computes in {taken}, not {self.precision}")
        self.request = compiled.create_infer_request()
        self.held = []
        for index, name in enumerate(names):
            tensor = openvino.Tensor(job.feed[name], shared_memory=True)
            self.held.append(tensor)
            self.request.set_input_tensor(index, tensor)
        self()
        self.outputs = {}
        for index, port in enumerate(compiled.outputs):
            first = self.request.get_output_tensor(index).data
            array = np.empty(first.shape, first.dtype)
            tensor = openvino.Tensor(array, shared_memory=True)
            self.held.append(tensor)
            self.request.set_output_tensor(index, tensor)
            for name in port.get_names():
                self.outputs[name] = array

    def __call__(self) -> None:
        # Views of the bound outputs, not copies.
        self.request.infer(share_inputs=True, share_outputs=True)

    def results(self) -> Arrays:
        self()
        return self.outputs


class TorchCompile:
    precision = "float32"  # of the module's parameters

    def __init__(self, job: Job):
        import torch

        if job.torch is None:
            raise ValueError("there is no torch module of this model")
        torch.set_num_threads(job.threads)
        # Graph breaks and autotuning are talkative.
        logging.getLogger("torch").setLevel(logging.ERROR)
        torch._dynamo.reset()
        self.torch, self.names = torch, job.outputs
        self.call = torch.compile(
            job.torch().to(getattr(torch, self.precision)),
            dynamic=False,
            options={"freezing": True},
        )
        self.inputs = [torch.from_numpy(array) for array in job.feed.values()]
        self.inputs = [
            value.to(getattr(torch, self.precision)) if value.is_floating_point() else value
            for value in self.inputs
        ]
        self()

    def __call__(self) -> Any:
        with self.torch.no_grad():
            return self.call(*self.inputs)

    def results(self) -> Arrays:
        values = zip(self.names, self(), strict=True)
        return {n: v.float().numpy() for n, v in values}


class Iree:
    # The task system's threads are made once in a process.
    threads: int | None = None

    def __init__(self, job: Job):
        import iree.compiler
        import iree.runtime
        import onnx
        from iree.compiler.dialects import func  # noqa: F401
        from iree.compiler.extras import onnx_importer
        from iree.compiler.ir import Context

        if Iree.threads not in (None, job.threads):
            raise ValueError("IREE's number of threads cannot change in a process")
        if Iree.threads is None:
            Iree.threads = job.threads
            iree.runtime.flags.parse_flags(
                f"--task_topology_group_count={job.threads}"
            )
        model = onnx.load(job.path)
        names = {value.name for value in model.graph.initializer}
        feed = []
        for value in model.graph.input:
            if value.name in names:
                continue
            array = job.feed[value.name]
            feed.append(array)
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, array.shape, strict=True):
                dim.dim_value = size
        del model.graph.value_info[:]
        for value in model.graph.output:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
        model = onnx.version_converter.convert_version(
            model, max(17, model.opset_import[0].version)
        )
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        info = onnx_importer.ModelInfo(model)
        context = Context()
        module = info.create_module(context=context)
        onnx_importer.NodeImporter.define_function(
            info.main_graph, module.operation
        ).import_all()
        program = iree.compiler.compile_str(
            module.operation.get_asm(assume_verified=True),
            target_backends=["llvm-cpu"],
            input_type="onnx",
            extra_args=[
                "--iree-llvmcpu-target-cpu=host",
                "--iree-opt-level=O3",
            ],
        )
        self.config = iree.runtime.Config("local-task")
        loaded = iree.runtime.load_vm_flatbuffer(program, driver="local-task")
        self.function = loaded[info.main_graph.graph_proto.name or "main_graph"]
        device = self.config.device
        self.inputs = [iree.runtime.asdevicearray(device, array) for array in feed]
        self.names = job.outputs
        self()

    def __call__(self) -> Any:
        return self.function(*self.inputs)

    def results(self) -> Arrays:
        values = self()
        if not isinstance(values, (tuple, list)):
            values = [values]
        return {n: v.to_host() for n, v in zip(self.names, values, strict=True)}


# Name, module that must be importable, heading.
PEERS: dict[str, tuple[type, str, str]] = {
    "ort": (OnnxRuntime, "onnxruntime", "ONNX Runtime"),
    "openvino": (OpenVino, "openvino", "OpenVINO"),
    "torch": (TorchCompile, "torch", "torch.compile"),
    "iree": (Iree, "iree.compiler", "IREE"),
}


def chosen(text: str) -> dict[str, type]:
    """The peers of a comma-separated list; what is not installed is left out
    with a printed reason. Raises ValueError for an unknown name."""
    peers = {}
    for name in text.split(","):
        if name not in PEERS:
            raise ValueError(f"no peer {name}; there are: {', '.join(PEERS)}")
        peer, module, title = PEERS[name]
        found = None
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.util.find_spec(module)
        if found:
            peers[name] = peer
        else:
            print(f"{name}: skipped, {title} is not installed (setup/python peers)")
    return peers
