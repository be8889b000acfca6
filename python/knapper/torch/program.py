"""A compiled graph as AOTAutograd calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from knapper.errors import UserError
from knapper.library import CRunOptions, CTensor, check
from knapper.module import Module
from knapper.results import Handle, Result
from knapper.torch import sizes, transforms
from knapper.torch.description import DTYPES, Description, Input, Output
from knapper.torch.objects import Signature
from knapper.torch.overlaps import Overlaps
from knapper.torch.verify import verify
from knapper import dtypes

_empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
_empty_strided_cuda = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)


def _shapes(description: Description) -> Callable[[Any], Any] | None:
    """A function of the call's arguments that gives size, stride and the dims in
    memory of every output, and the sizes among the results; None where all of
    them are numbers. Sizes that only the run knows are None."""
    used: set[str] = set()
    lines = []
    symbolic = False

    def write(values: Any) -> str:
        nonlocal symbolic
        texts = []
        for value in values:
            if isinstance(value, int):
                texts.append(str(value))
                continue
            symbolic = True
            if not sizes.symbols(value) <= description.symbols.keys():
                return "None"
            used.update(sizes.symbols(value))
            texts.append(sizes.python(value))
        return "(" + "".join(text + ", " for text in texts) + ")"

    for output in description.outputs:
        memory = [1 if d in output.narrow else output.size[d] for d in output.order]
        lines.append(
            f"({write(output.size)}, {write(output.stride)}, {write(memory)})"
        )
    given = write([value for kind, value in description.results if kind == "size"])
    if not symbolic:
        return None
    source = ["def shapes(a):"]
    for name in sorted(used):
        argument, dim = description.symbols[name]
        where = f"a[{argument}]" if dim < 0 else f"a[{argument}].shape[{dim}]"
        source.append(f"    {name} = {where}")
    source.append(f"    return [{', '.join(lines)}], {given}")
    space: dict[str, Any] = {}
    exec("\n".join(source), space)
    return space["shapes"]


class _Slots:
    """The structs of one call."""

    def __init__(self, program: Program) -> None:
        description = program.description
        self.inputs = (CTensor * max(1, len(description.inputs)))()
        self.outputs = (CTensor * max(1, len(description.outputs)))()
        self.keep: list[Any] = []
        for slot, given in zip(self.inputs, description.inputs):
            shape = (ctypes.c_int64 * max(1, given.rank))()
            self.keep.append(shape)
            slot.rank = given.rank
            slot.shape = shape
        for slot, output in zip(self.outputs, description.outputs):
            shape = (ctypes.c_int64 * max(1, len(output.order)))()
            self.keep.append(shape)
            slot.rank = len(output.order)
            slot.shape = shape
            slot.dtype = program.codes[output.dtype]
        self.scalars = [ctypes.c_int64() for _ in description.inputs]
        self.out = ctypes.c_void_p()
        self.options = CRunOptions(ctypes.sizeof(CRunOptions), None, 0, 1, None)
        for index, given in enumerate(description.inputs):
            if given.symbol:
                slot = self.inputs[index]
                slot.data = ctypes.addressof(self.scalars[index])
                slot.bytes = 8
                slot.dtype = dtypes.NAMES.index("i64")


class Program:
    """Called with a list of arguments, which it empties, as a boxed function."""

    def __init__(
        self,
        module: Module,
        description: Description,
        check: bool = False,
        device: torch.device | None = None,
    ) -> None:
        """check: compare every kernel with float64 at the first call. device: the
        GPU that runs it, else the CPU does."""
        self._gpu = device if device is not None and device.type == "cuda" else None
        self._empty = _empty_strided_cuda if self._gpu else _empty_strided_cpu
        self._boxed_call = True  # of the object: torch copies its __dict__
        self._unchecked = check
        # Appends random numbers to the arguments of a call.
        self.draw: Callable[[list[Any]], None] | None = None
        self.module = module
        self.description = description
        self.codes = {
            dtype: dtypes.NAMES.index(name) for dtype, name in DTYPES.items()
        }
        self.copied = 0  # arguments that were copied because of how they lay
        self._shapes = _shapes(description)
        self._fixed = None if self._shapes else self._fixed_shapes()
        self._free: list[_Slots] = []
        self._run = module._lib.knapper_run
        self._run_with = module._lib.knapper_run_with
        self._release = module._lib.knapper_result_release
        self._handle = module._handle.value
        for given in description.inputs:
            if self._gpu and given.tensor is not None and given.rank > 0:
                given.tensor = given.tensor.to(self._gpu)
        self._held = [i.tensor for i in description.inputs if i.tensor is not None]
        self._views = [i for i in description.inputs if i.view is not None]
        overlaps = Overlaps(description)
        self._overlaps = overlaps if overlaps else None
        self._in_place = self._replaced()
        # Outputs that are copied to the argument that they change.
        self._written = [
            (index, output.mutates)
            for index, output in enumerate(description.outputs)
            if output.mutates >= 0 and index not in self._in_place
        ]
        self._plain = not self._written and description.results == [
            ("output", i) for i in range(len(description.outputs))
        ]
        self._signature = self._find_signature()
        self._allocate = self._allocator()

    def _fixed_shapes(self) -> Any:
        rows = []
        for output in self.description.outputs:
            memory = tuple(
                1 if d in output.narrow else output.size[d] for d in output.order
            )
            rows.append((tuple(output.size), tuple(output.stride), memory))
        numbers = tuple(
            int(value) for kind, value in self.description.results if kind == "size"
        )
        return rows, numbers

    def _replaced(self) -> dict[int, int]:
        """Outputs that are written where the argument lies that they change ->
        that argument."""
        found = {}
        for index, output in enumerate(self.description.outputs):
            if output.mutates < 0 or not output.dense or output.narrow:
                continue
            if any(given.argument == output.mutates for given in self._views):
                continue  # it is read from there, too
            for place, given in enumerate(self.description.inputs):
                if given.argument == output.mutates and given.order == output.order:
                    if self.module._lib.knapper_module_may_replace(
                        self._handle, index, place
                    ):
                        found[index] = given.argument
        return found

    def _find_signature(self) -> Signature | None:
        """How the library reads a call's tensors itself; None where it cannot."""
        description = self.description
        if self._empty is None or not Signature.available():
            return None
        if description.checks or description.assertions:
            return None
        if self._gpu and self._gpu.index is None:
            return None
        inputs, held, views = [], 0, 0
        i64 = dtypes.NAMES.index("i64")
        for given in description.inputs:
            if given.symbol:
                argument, dim = description.symbols[given.symbol]
                if dim >= 0 or given.sign:
                    return None
                inputs.append((argument, [], i64, True))
                continue
            order = given.order
            if order is None and given.view is not None:
                order = list(range(given.rank))  # a copy
            if order is None or given.dtype is None:
                return None
            index = given.argument
            if self._gpu and given.tensor is not None and given.tensor.device != self._gpu:
                return None  # a number on the host
            if given.tensor is not None:  # behind the arguments
                held += 1
                index = description.arguments + held - 1
            elif given.view is not None:  # behind these
                views += 1
                index = description.arguments + len(self._held) + views - 1
            inputs.append((index, order, self.codes[given.dtype], False))
        outputs = []
        for index, output in enumerate(description.outputs):
            if not output.dense or output.narrow:
                return None
            if self._gpu and output.device != self._gpu:
                return None  # the user's .cpu()
            outputs.append((index, output.order, self.codes[output.dtype], False))
        device = self._gpu.index if self._gpu else -1
        return Signature(self._handle, inputs, outputs, device)

    def _allocator(self) -> Callable[[Any], list[Any]] | None:
        """Memory for the outputs as a function of the arguments, where all sizes
        are numbers."""
        if self._fixed is None or self._empty is None:
            return None
        space: dict[str, Any] = {"empty": self._empty}
        calls = []
        for index, (size, stride, _) in enumerate(self._fixed[0]):
            if index in self._in_place:
                calls.append(f"a[{self._in_place[index]}]")
                continue
            space[f"d{index}"] = self.description.outputs[index].dtype
            calls.append(f"empty({size}, {stride}, d{index})")
        exec(f"def made(a):\n    return [{', '.join(calls)}]", space)
        return space["made"]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        description = self.description
        if forward_ad._current_level >= 0:
            transforms.refuse_tangents(arguments)
        if self.draw is not None:
            self.draw(arguments)
        if description.begins:
            self._refuse_begins(arguments)
        self.refuse_overlaps(arguments)
        if self._unchecked:
            self._unchecked = False
            verify(description.text, self._inputs(arguments))
        signature, allocate = self._signature, self._allocate
        if self._gpu and torch.cuda.current_device() != self._gpu.index:
            signature = None  # memory would come from another device
        if signature is not None:
            if allocate is not None:
                made = allocate(arguments)
            else:
                shapes, numbers = self._shapes(arguments)  # type: ignore[misc]
                made = self._made(arguments, shapes)
            given = arguments + self._held if self._held else arguments
            if self._views:
                given = given + [self._view(each, arguments) for each in self._views]
            if made is not None and signature.run(given, made):
                if self._plain:
                    arguments.clear()
                    return made
                for index, argument in self._written:
                    with torch.no_grad():
                        arguments[argument].copy_(made[index])
                return self._results(
                    arguments, made, self._fixed[1] if self._fixed else numbers
                )
        shapes, numbers = self._fixed or self._shapes(arguments)  # type: ignore[misc]
        try:
            slots = self._free.pop()
        except IndexError:
            slots = _Slots(self)
        held = []
        for index, given in enumerate(description.inputs):
            if given.symbol:
                argument, _ = description.symbols[given.symbol]
                slots.scalars[index].value = given.of(arguments[argument])
                continue
            tensor = self._in_memory(given.among(arguments), given.order)
            held.append(tensor)
            slot = slots.inputs[index]
            slot.data = tensor.data_ptr()
            slot.bytes = tensor.nbytes
            slot.dtype = self.codes[tensor.dtype]
            for dim, size in enumerate(tensor.shape):
                slot.shape[dim] = size
        outputs: list[Any] = []
        late = False
        for slot, output, (size, stride, memory) in zip(
            slots.outputs, description.outputs, shapes
        ):
            if memory is None:
                late = True
                slot.data = None
                slot.bytes = 0
                outputs.append(None)
                continue
            if output.dense and output.mutates < 0:
                made = torch.empty_strided(
                    size, stride, dtype=output.dtype, device=self._gpu or output.device
                )
            else:
                made = torch.empty(memory, dtype=output.dtype, device=self._gpu or output.device)
            outputs.append(made)
            count = 1
            for dim, entry in enumerate(memory):
                slot.shape[dim] = entry
                count *= entry
            slot.data = made.data_ptr() if count else None
            slot.bytes = count * made.element_size()
        out = slots.out
        if self._gpu is None:
            error = self._run(
                self._handle, slots.inputs, len(description.inputs), slots.outputs,
                len(description.outputs), ctypes.byref(out),
            )  # fmt: skip
        else:
            # What torch gives its stream later waits for the run: memory that it
            # frees and gives away again is safe.
            slots.options.stream = torch.cuda.current_stream(self._gpu).cuda_stream
            error = self._run_with(
                self._handle, slots.inputs, len(description.inputs), slots.outputs,
                len(description.outputs), ctypes.byref(slots.options), ctypes.byref(out),
            )  # fmt: skip
        if error is not None:
            check(error)
        if late:
            self._take_late(out, outputs)
        else:
            self._release(out)
        self._free.append(slots)
        del held
        for index, name, is_matrix in description.checks:
            torch._linalg_check_errors(outputs[index], name, is_matrix=is_matrix)
        for index, told in description.assertions:
            torch._assert_async(outputs[index], told)
        for output, (size, stride, memory), index in zip(
            description.outputs, shapes, range(len(outputs))
        ):
            made = outputs[index]
            if output.mutates >= 0:
                target = arguments[output.mutates]
                with torch.no_grad():
                    target.copy_(_arranged(made, output))
            elif memory is None:
                outputs[index] = made.contiguous()  # as torch traces what data sizes
            elif not output.dense:
                outputs[index] = _restrided(made, output, size, stride)
            if output.mutates < 0 and outputs[index].device != output.device:
                outputs[index] = outputs[index].to(output.device)  # the user's .cpu()
        return self._results(arguments, outputs, numbers)

    def claims(self, arguments: list[Any]) -> Any:
        """Size, stride and the dims in memory of every output of a call."""
        return (self._fixed or self._shapes(arguments))[0]  # type: ignore[misc]

    def refuse_overlaps(self, arguments: list[Any]) -> None:
        """UserError where an argument that is written lies over another one."""
        if self._overlaps is not None:
            self._overlaps.refuse(arguments)

    def _made(self, arguments: list[Any], shapes: Any) -> list[Any] | None:
        """Memory for the outputs; None where a size is not known yet."""
        made = []
        for index, (output, (size, stride, memory)) in enumerate(
            zip(self.description.outputs, shapes)
        ):
            if memory is None:
                return None
            if index in self._in_place:
                made.append(arguments[output.mutates])
            else:
                made.append(self._empty(size, stride, output.dtype))
        return made

    def _results(self, arguments: list[Any], outputs: list[Any], numbers: Any) -> list[Any]:
        results = []
        number = iter(numbers or ())
        for kind, value in self.description.results:
            if kind == "output":
                results.append(outputs[value])
            elif kind == "argument":
                results.append(arguments[value])
            elif kind in ("view", "number"):
                results.append(value.of(arguments, outputs))
            elif kind == "size":
                results.append(next(number))
            else:
                results.append(value)
        arguments.clear()
        return results

    def _inputs(self, arguments: list[Any]) -> list[torch.Tensor]:
        """The program's inputs as row-major tensors."""
        made = []
        for given in self.description.inputs:
            if given.symbol:
                argument, _ = self.description.symbols[given.symbol]
                made.append(torch.tensor(given.of(arguments[argument])))
                continue
            made.append(self._in_memory(given.among(arguments), given.order))
        return made

    def _view(self, given: Input, arguments: list[Any]) -> torch.Tensor:
        """A part of the memory that an argument lies in; a copy where it has gaps."""
        tensor = given.among(arguments)
        return tensor if given.order is not None else self._in_memory(tensor, None)

    def _refuse_begins(self, arguments: list[Any]) -> None:
        for index, begin in self.description.begins.items():
            found = arguments[index].storage_offset()
            if found != begin:
                raise UserError(
                    "as_strided counts from the beginning of a storage: argument "
                    f"{index} lies {found} elements behind it, and lay {begin} behind "
                    "it when the graph was compiled",
                    where="knapper.torch",
                    hint="give a clone of the tensor",
                )

    def _in_memory(self, tensor: torch.Tensor, order: list[int] | None) -> torch.Tensor:
        """The tensor with its dims in the order that the program reads."""
        if tensor.requires_grad:
            tensor = tensor.detach()
        if order is not None and order != sorted(order):
            tensor = tensor.permute(order)
        if not tensor.is_contiguous():
            self.copied += 1
            tensor = tensor.contiguous()
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_neg().resolve_conj()
        return tensor

    def _take_late(self, out: ctypes.c_void_p, outputs: list[Any]) -> None:
        """Outputs whose sizes the run decided, from the result's memory."""
        handle = ctypes.c_void_p(out.value)
        out.value = None
        result = Result(
            Handle(handle, self._release, self.module._handle),
            tuple(str(i) for i in range(len(outputs))),
            len(outputs),
        )
        for index, made in enumerate(outputs):
            if made is None:
                output = self.description.outputs[index]
                outputs[index] = _arranged(
                    torch.from_dlpack(result.tensor(index)), output
                ).to(output.device, copy=True)


def _arranged(memory: torch.Tensor, output: Output) -> torch.Tensor:
    """What lies in memory's order with the dims in their own."""
    back = [0] * len(output.order)
    for position, dim in enumerate(output.order):
        back[dim] = position
    return memory.permute(back)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements may lie in one place: a dim steps over less than what the finer ones span."""
    span = 0
    for step, n in sorted(zip(tensor.stride(), tensor.shape)):
        if n > 1:
            if step <= span:
                return True
            span += (n - 1) * step
    return False


def _restrided(memory: torch.Tensor, output: Output, size: Any, stride: Any) -> Any:
    """A copy with strides that leave gaps, or by which elements lie in one place."""
    made = torch.empty_strided(size, stride, dtype=output.dtype, device=output.device)
    if not made.numel():
        return made
    given, target = _arranged(memory, output), made
    for dim, step in enumerate(stride):
        if step == 0:
            given, target = given.narrow(dim, 0, 1), target.narrow(dim, 0, 1)
    if not _overlaps(target):
        target.copy_(given)
        return made
    # Windows over each other: all that lie in one place are equal.
    last = sum((n - 1) * step for n, step in zip(target.shape, target.stride()))
    flat = made.as_strided((last + 1,), (1,))
    place = torch.arange(last + 1, device=made.device)
    flat[place.as_strided(target.shape, target.stride()).reshape(-1)] = given.reshape(-1)
    return made
