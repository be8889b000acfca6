"""Programs of torch.export as modules that need no torch."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    TensorArgument,
)

from knapper.errors import UserError, WrongValue
from knapper.from_torch import in_evaluation
from knapper.module import Module
from knapper.request import Compiler
from knapper.torch import decompositions, formulas, planes
from knapper.torch.describe import Describer
from knapper.torch.description import DTYPES
from knapper.torch.through import register
from knapper.torch.weights import Weights

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class ExportedModule(Module):
    """What `export` gives: a Module whose weights have names."""

    __slots__ = ("_build", "_state")

    def load_state_dict(self, state: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Other weights, by the names that the exported module has for them: the
        program is compiled again with these, and saved files have them. Weights that
        `state` leaves out stay, where `strict` is False; else they are an error, as
        names are that the program does not have. No call may run meanwhile.

        Raises UserError for names, dtypes and shapes that do not fit; the module is
        as it was then."""
        held = self._state
        lacks = [name for name in held if name not in state]
        strange = [name for name in state if name not in held]
        if strict and (lacks or strange):
            raise UserError(
                f"weights that are missing: {', '.join(lacks) or 'none'}; that the program does "
                f"not have: {', '.join(strange) or 'none'}",
                where="load_state_dict",
                hint="strict=False leaves these out",
            )
        for name, tensor in state.items():
            old = held.get(name)
            if old is not None and (tensor.shape, tensor.dtype) != (old.shape, old.dtype):
                raise UserError(
                    f"{name!r} is {tensor.dtype} {list(tensor.shape)}, the program has "
                    f"{old.dtype} {list(old.shape)}",
                    where="load_state_dict",
                    hint="export a model of this form",
                )
        given = {name: state.get(name, old) for name, old in held.items()}
        self._take(self._build(given))
        object.__setattr__(self, "_state", given)

    def _take(self, module: Module) -> None:
        for name in ("_lib", "_handle", "_facts", "_arguments"):
            object.__setattr__(self, name, getattr(module, name))


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    fallback: str = "error",
    **options: Any,
) -> ExportedModule:
    """A module that computes what `model` computes in evaluation, with its weights:
    `.save("model.knap")` writes a file that runs from the command line, C and
    Python without torch.

    model: a torch.nn.Module, an `ExportedProgram`, or the path of a .pt2 file.
    args, kwargs: of a module's call, to trace it with.
    dynamic_shapes: of a module: the dims that calls decide, as torch.export takes
        them; a text ("batch") names one: {"x": {0: "batch"}}.
    fallback: as of `Options`; what torch computes needs torch where it runs.
    options: of `knapper.compile`: target, threads, output, dtype, ...

    Inputs and outputs are row-major, complex ones real with a last dim of two
    (`torch.view_as_real`); inputs have the names of the call's
    arguments, outputs those of the result's fields or "output", "output_1", ...
    Raises WrongValue for what torch cannot export, with torch's reason, for
    operators without a row, and for programs that change their buffers or inputs.
    """
    program = _program(model, args, kwargs, dynamic_shapes)
    names = _names_of(program, dynamic_shapes)
    build = functools.partial(_build, program, names, fallback == "allow", options)
    made: ExportedModule = object.__new__(ExportedModule)
    made._take(build({}))
    object.__setattr__(made, "_build", build)
    object.__setattr__(made, "_state", dict(program.state_dict))
    return made


def _build(
    program: ExportedProgram,
    names: dict[str, str],
    fallback: bool,
    options: dict[str, Any],
    state: Mapping[str, torch.Tensor],
) -> Module:
    """The program compiled; `state`: weights in the place of its own."""
    writer = _Writer(program, names, state)
    text = writer.write(fallback)
    if fallback:
        for overload in writer.overloads:
            register(overload)
    return writer.weights.build(text, Compiler(model_format="torch", **options))


def _program(
    model: Any, args: Any, kwargs: Any, dynamic_shapes: Any
) -> ExportedProgram:
    if isinstance(model, (str, os.PathLike)):
        try:
            model = torch.export.load(os.fspath(model))
        except Exception as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise WrongValue(
                f"model: torch cannot read this .pt2 file: {_reason(error)}",
                where=os.fspath(model),
                hint="torch.export.save(program, path) writes one",
            ) from error
    if isinstance(model, ExportedProgram):
        if args or kwargs or dynamic_shapes is not None:
            raise WrongValue(
                "args, kwargs and dynamic_shapes: an exported program has them already",
                where="args",
                hint="leave them out",
            )
        return model
    try:
        with in_evaluation(model):
            return torch.export.export(
                model, args, dict(kwargs or {}), dynamic_shapes=_dims(dynamic_shapes)
            )
    except Exception as error:
        raise WrongValue(
            f"model: torch cannot export {type(model).__name__}: {_reason(error)}",
            where="model",
            hint="torch.export.draft_export(model, args) says more",
        ) from error


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


def _dims(shapes: Any) -> Any:
    """Names as dims that torch may find any size for."""
    if isinstance(shapes, str):
        return Dim.DYNAMIC
    if isinstance(shapes, Mapping):
        return {key: _dims(value) for key, value in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        return type(shapes)(_dims(value) for value in shapes)
    return shapes


def _named(shape: Any) -> bool:
    return isinstance(shape, str) or isinstance(shape, type(Dim("x")))


def _names_of(program: ExportedProgram, shapes: Any) -> dict[str, str]:
    """torch's symbol -> the user's name of the dim."""
    names: dict[str, str] = {}

    def visit(value: Any, shape: Any) -> None:
        if isinstance(value, torch.Tensor) and isinstance(shape, (Mapping, list, tuple)):
            dims = shape.items() if isinstance(shape, Mapping) else enumerate(shape)
            for dim, entry in dims:
                size = value.shape[dim]
                if _named(entry) and isinstance(size, torch.SymInt):
                    made = entry if isinstance(entry, str) else entry.__name__
                    if size.node.expr.is_Symbol:
                        names.setdefault(size.node.expr.name, made)
        elif isinstance(value, Mapping) and isinstance(shape, Mapping):
            for key, entry in value.items():
                visit(entry, shape.get(key))
        elif isinstance(value, (list, tuple)) and isinstance(shape, (list, tuple)):
            for entry, part in zip(value, shape):
                visit(entry, part)

    if shapes is None:
        return names
    fakes = {
        node.name: node.meta.get("val")
        for node in program.graph.nodes
        if node.op == "placeholder"
    }
    values = [
        fakes.get(spec.arg.name)
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    ]
    args, kwargs = pytree.tree_unflatten(values, program.call_spec.in_spec)
    if isinstance(shapes, Mapping):
        order = list(shapes)
        visit(dict(zip(order, args)), shapes)
        visit(kwargs, shapes)
    else:
        visit(tuple(args), shapes)
        visit(tuple(kwargs.values()), tuple(shapes)[len(args) :])
    taken: set[str] = set()
    return {
        symbol: name
        for symbol, name in names.items()
        if re.fullmatch(r"[A-Za-z_]\w*", name) and not (name in taken or taken.add(name))
    }


@functools.cache
def _table() -> dict[Any, Callable[..., Any]]:
    """What is taken apart: composite operators too, which AOTAutograd never sees."""
    made = dict(torch.export.default_decompositions().items())
    kept = decompositions.table()
    core = decompositions.core()
    for overload in list(made):
        if overload in core and overload not in kept:
            del made[overload]  # has a row
    made.update(kept)
    made.update(formulas.table())
    return made


class _Writer(Describer):
    """An exported program as the front end's description, and its weights."""

    def __init__(
        self,
        program: ExportedProgram,
        names: dict[str, str],
        state: Mapping[str, torch.Tensor],
    ) -> None:
        self.state = state
        self.program = program.run_decompositions(_table())
        super().__init__(planes.split(self.program.graph_module).module)
        self.names = names
        self.weights = Weights()

    def write(self, fallback: bool) -> bytes:
        self._refuse_changes()
        described = self.run(fallback, self._output_names())
        text = described.text
        return _renamed(text, self.names) if self.names else text

    def _refuse_changes(self) -> None:
        for spec in self.program.graph_signature.output_specs:
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                raise WrongValue(
                    f"the program writes into {spec.target!r}, which a module's call "
                    "cannot",
                    where="knapper.torch.export",
                    hint="return the new value, or export the model in evaluation",
                )

    def _output_names(self) -> list[str]:
        spec = self.program.call_spec.out_spec
        leaves = list(range(spec.num_leaves))
        paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(leaves, spec))
        names: list[str] = []
        for path, index in paths:
            words = [
                str(getattr(key, "key", getattr(key, "name", "")))
                for key in path
                if not isinstance(key, pytree.SequenceKey)
            ] + [str(key.idx) for key in path if isinstance(key, pytree.SequenceKey)]
            if not path:
                words = ["output"]
            elif all(isinstance(key, pytree.SequenceKey) for key in path):
                words = ["output"] + [str(index)] * (index > 0)
            name = "_".join(words)
            names.append(name if name not in names else f"{name}_{index}")
        return names

    def placeholders(self) -> None:
        """Describes the inputs by the program's signature: user inputs, parameters, buffers and constants."""
        nodes = {n.name: n for n in self.module.graph.nodes if n.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            if spec.kind == InputKind.TOKEN:
                self.tokens.add(nodes[spec.arg.name])
            elif isinstance(spec.arg, ConstantArgument):
                continue
            elif not isinstance(spec.arg, TensorArgument):
                self.missing.append(f"input {spec.arg.name} is no tensor")
            elif spec.kind in _HELD:
                self._hold(nodes[spec.arg.name], str(spec.target))
        super().placeholders()

    def add_tensor(self, node: Any, value: torch.Tensor, made: Any) -> None:
        """Adds a user's input, or the data of a parameter, buffer or constant."""
        if node in self.keys:
            return
        if made.tensor is not None:
            self._add_data(node, str(node.target), made.tensor)
            return
        super().add_tensor(node, value, made)
        if self.described and self.described[-1]["name"] == node.name:
            self.described[-1].pop("order", None)

    def _hold(self, node: Any, target: str) -> None:
        found = self.state.get(target)
        if found is None:
            found = self.program.state_dict.get(target)
        if found is None:
            found = self.program.constants[target]
        self._add_data(node, target, planes.as_real(found))

    def _add_data(self, node: Any, target: str, tensor: torch.Tensor) -> None:
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided:
            self.missing.append(f"{target}: {tensor.dtype}, {tensor.layout}")
            return
        self.described.append(
            {
                "name": node.name,
                "dtype": DTYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "offset": self.weights.place(tensor),
                "of": target,
            }
        )
        self.keys[node] = node.name


def _renamed(text: bytes, names: dict[str, str]) -> bytes:
    """The description with other names of its symbols."""
    import json

    symbols = re.compile(r"[A-Za-z_]\w*")

    def visit(value: Any) -> Any:
        if isinstance(value, dict):
            if list(value) == ["s"]:
                return {"s": symbols.sub(lambda m: names.get(m[0], m[0]), value["s"])}
            made = {key: visit(entry) for key, entry in value.items()}
            if made.get("binds") in names:
                made["binds"] = names[made["binds"]]
            return made
        if isinstance(value, list):
            return [visit(entry) for entry in value]
        return value

    return json.dumps(visit(json.loads(text)), separators=(",", ":")).encode()
