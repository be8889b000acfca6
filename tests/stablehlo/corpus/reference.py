"""What the public interpreter of StableHLO in jaxlib says of a program."""

from __future__ import annotations

import re

import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from corpus.programs import COMPLEX, INTEGERS, NUMPY, Program, element_of

# What the programs are serialised for.
VERSION = "1.17.0"
PARTS = {"complex<f32>": "f32", "complex<f64>": "f64"}


def context() -> ir.Context:
    """With quantised types: jaxlib loads their dialect only for passes that need it."""
    made = jax_mlir.make_ir_context()
    stablehlo.register_stablehlo_passes()
    with made:
        passes = passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)")
        passes.run(ir.Module.parse("module {}").operation)
    return made


def with_element(type: str, element: str) -> str:
    return type.replace(element_of(type), element)


def _dense(array: np.ndarray, type: str) -> ir.Attribute:
    element = element_of(type)
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {type}")
    if element == "i1" or element in INTEGERS:
        text = str(np.array(array.astype(int) if element == "i1" else array, dtype=object).tolist())
        return ir.Attribute.parse(f"dense<{text}> : {type}")
    return ir.Attribute.parse(f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"> : {type}')


def _wide(element: str) -> str:
    """A type that NumPy's protocols can carry and that holds all of `element`."""
    if element in ("i2", "i4"):
        return "i32"
    if element in ("ui2", "ui4"):
        return "ui32"
    return element if element in ("i1", "f32", "f64", *INTEGERS) else "f32"


def evaluate(program: Program) -> list[np.ndarray]:
    """The results of the program, as arrays of their own types.

    A main around the program's builds complex arguments from their parts and
    gives results in types that an attribute can be read from."""
    head, lines, values = [], [], []
    for i, (array, type) in enumerate(zip(program.arguments, program.argument_types)):
        element = element_of(type)
        if element in COMPLEX:
            part = with_element(type, PARTS[element])
            head += [(f"%re{i}", part, array.real.copy()), (f"%im{i}", part, array.imag.copy())]
            lines.append(f"%a{i} = stablehlo.complex %re{i}, %im{i} : {type}")
        else:
            head.append((f"%a{i}", type, array))
    count = len(program.result_types)
    operands = ", ".join(f"%a{i}" for i in range(len(program.arguments)))
    lines.append(
        f"%r:{count} = func.call @inner({operands}) : ({', '.join(program.argument_types)}) -> ({', '.join(program.result_types)})"
    )
    for i, type in enumerate(program.result_types):
        element = element_of(type)
        if element in COMPLEX:
            part = with_element(type, PARTS[element])
            for op in ("real", "imag"):
                lines.append(f"%{op}{i} = stablehlo.{op} %r#{i} : ({type}) -> {part}")
                values.append((f"%{op}{i}", part))
        elif _wide(element) != element:
            wide = with_element(type, _wide(element))
            lines.append(f"%w{i} = stablehlo.convert %r#{i} : ({type}) -> {wide}")
            values.append((f"%w{i}", wide))
        else:
            values.append((f"%r#{i}", type))
    results = ", ".join(type for _, type in values)
    outer = (
        f"func.func public @main({', '.join(f'{name}: {type}' for name, type, _ in head)}) -> ({results}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {', '.join(name for name, _ in values)} : {results}\n}}\n"
    )
    text = re.sub(r"func\.func public @main", "func.func private @inner", program.text)
    text = text.rstrip().removesuffix("}") + outer + "}\n"
    with context():
        module = ir.Module.parse(text)
        if "!quant." in text:  # the interpreter knows what these passes make of quantised numbers
            for each in ("stablehlo-legalize-quantized-op-to-qdq", "stablehlo-legalize-quant-to-math", "chlo-legalize-to-stablehlo"):
                passmanager.PassManager.parse(f"builtin.module(func.func({each}))").run(module.operation)
        given = stablehlo.eval_module(module, [_dense(array, type) for _, type, array in head])
        arrays = [np.array(each).reshape(np.shape(each)) for each in given]
    outputs = []
    for type in program.result_types:
        element = element_of(type)
        if element in COMPLEX:
            outputs.append((arrays.pop(0) + 1j * arrays.pop(0)).astype(NUMPY[element]))
        else:
            outputs.append(arrays.pop(0).astype(NUMPY[element]))
    assert not arrays
    return outputs


def serialised(program: Program) -> bytes:
    with context():
        return bytes(_jax.mlir.serialize_portable_artifact(program.text, VERSION))


def printed(program: Program, *, generic: bool) -> str:
    """As the project's own printer writes it."""
    with context():
        return ir.Module.parse(program.text).operation.get_asm(print_generic_op_form=generic)
