"""Triton kernels of the user's (`triton.jit`, `triton.autotune`) in a compiled program:
Triton launches them, into the program's stream and on its memory. Triton itself is
imported by whoever wrote the kernel."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import torch
from torch.fx import Node

from knapper.torch.description import DTYPES

# Types of devices that kernels are launched on.
DEVICES = ("cuda",)
_EMPTY = {
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default,
}
_known: dict[str, list[Kernel]] = {}  # of the process, by name, as Dynamo's table is
_lock = threading.Lock()


class Refused(Exception):
    """What of a launch is not taken."""


@dataclasses.dataclass(eq=False)
class Kernel:
    """A kernel with the arguments that are numbers of the trace, called as an operator
    of the process."""

    kernel: Any
    constants: dict[str, Any]
    blocks: dict[str, list[Any]]  # of tensors that are given as TMA descriptors
    number: int = 0

    is_external = True
    on_device = True
    tags = ()

    def __str__(self) -> str:
        return f"triton.{name_of(self.kernel)}.{self.number}"

    def is_like(self, other: Kernel) -> bool:
        return (
            self.kernel is other.kernel
            and _typed(self.constants) == _typed(other.constants)
            and self.blocks == other.blocks
        )

    def launch(self, grids: list[list[int]], tensors: dict[str, Any], numbers: dict[str, Any]) -> None:
        for name, block in self.blocks.items():
            from triton.tools.tensor_descriptor import TensorDescriptor

            tensors[name] = TensorDescriptor.from_tensor(tensors[name], block)
        given = {**self.constants, **numbers, **tensors}
        # By position as far as they go: some of Triton's hooks see these only.
        leading: list[Any] = []
        for name in self.kernel.arg_names:
            if name not in given:
                break
            leading.append(given.pop(name))
        self.kernel[self._grid(grids)](*leading, **given)

    def _grid(self, grids: list[list[int]]) -> Any:
        if len(grids) == 1:
            return tuple(grids[0])
        configs = [config.kwargs for config in self.kernel.configs]

        def of(meta: dict[str, Any]) -> tuple[int, ...]:
            for config, grid in zip(configs, grids, strict=True):
                if all(meta.get(key) == value for key, value in config.items()):
                    return tuple(grid)
            raise RuntimeError(f"{self}: no configuration of it has {meta}")

        return of


def _typed(constants: dict[str, Any]) -> dict[str, Any]:
    """Triton compiles 1, 1.0 and True apart."""
    return {name: (type(value), repr(value)) for name, value in constants.items()}


def name_of(kernel: Any) -> str:
    function = kernel
    while hasattr(function, "fn"):  # autotune, then jit
        function = function.fn
    return getattr(function, "__name__", type(function).__name__)


def kernel_of(given: dict[str, Any]) -> tuple[Kernel, dict[str, Any]]:
    """Of a node's arguments: the kernel, and its arguments that are no constants."""
    from torch._higher_order_ops import triton_kernel_wrap as wrap

    kernel = wrap.kernel_side_table.get_kernel(given["kernel_idx"])
    constants = dict(wrap.kernel_side_table.get_constant_args(given["constant_args_idx"]))
    runs = {}
    for name, value in given["kwargs"].items():
        if isinstance(value, (Node, torch.SymInt)):
            runs[name] = value
        else:
            constants[name] = value
    blocks = {}
    for name, told in (given.get("tma_descriptor_metadata") or {}).items():
        block = wrap.maybe_unpack_tma_stable_metadata(told)
        if block is None:
            raise Refused(f"'{name}' is a TMA descriptor of Triton's older form")
        blocks[name] = list(block[0])
    made = Kernel(kernel, constants, blocks)
    with _lock:
        known = _known.setdefault(name_of(kernel), [])
        for each in known:
            if each.is_like(made):
                return each, runs
        made.number = len(known)
        known.append(made)
    return made, runs


@dataclasses.dataclass
class Launch:
    """A node that launches a kernel."""

    kernel: Kernel
    arguments: dict[str, Any]  # as `launches.Launches` reads them, with nodes in them
    written: list[str]  # the results, in their order


def launch_of(node: Node) -> Launch:
    """Of a functional launch. Refused where something of it is not taken."""
    kernel, runs = kernel_of(node.kwargs)
    written = list(node.kwargs["tensors_to_clone"])
    tensors = {name: v for name, v in runs.items() if isinstance(v, Node) and _is_tensor(v)}
    for name, source in tensors.items():
        value = source.meta["val"]
        if value.device.type not in DEVICES:
            raise Refused(f"'{name}' is on the {value.device.type.upper()}, and it runs on NVIDIA GPUs")
        if value.dtype not in DTYPES or value.layout != torch.strided:
            raise Refused(f"'{name}' is {value.dtype}, {value.layout}")
    # One tensor under several names is one memory, as it is in eager.
    first = {tensors[name]: name for name in reversed(written)}
    same = [
        [name, first[source]]
        for name, source in tensors.items()
        if first.get(source, name) != name
    ]
    copies = {name for name, _ in same}
    read = {
        name: source
        for name, source in tensors.items()
        if name not in copies and not (name in written and source.target in _EMPTY)
    }
    strides = {
        name: source.meta["val"].stride()
        for name, source in tensors.items()
        if name not in copies and not source.meta["val"].is_contiguous()
    }
    numbers = {name: value for name, value in runs.items() if name not in tensors}
    for name, value in numbers.items():
        told = value.meta.get("val") if isinstance(value, Node) else value
        if isinstance(told, bool) or not isinstance(told, (int, torch.SymInt)):
            raise Refused(f"'{name}' is a {type(told).__name__} that only a run knows; whole numbers are taken")
    arguments = {
        "tensors": _pairs(read),
        "numbers": _pairs(numbers),
        "grids": [list(grid) for grid in node.kwargs["grid"]],
        "made": [[name, DTYPES[tensors[name].meta["val"].dtype], list(tensors[name].meta["val"].shape)] for name in written],
        "strides": [[name, list(stride)] for name, stride in strides.items()],
        "same": same,
    }
    return Launch(kernel, arguments, written)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _pairs(of: dict[str, Any]) -> list[list[Any]]:
    return [[name, value] for name, value in of.items()]
