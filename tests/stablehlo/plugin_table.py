"""The plugin's table of functions for Python: structs read from the declarations in
`capi/pjrt`, errors as exceptions."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from knapper.jax.plugin import plugin_path

DECLARATIONS = Path(__file__).resolve().parents[2] / "capi/pjrt"
INTEGERS = {
    "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64,
    "uintptr_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int": ctypes.c_int,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "Code": ctypes.c_int,
    "Type": ctypes.c_int,
    "HostSemantics": ctypes.c_int,
}


def fields_of(body: str) -> list:
    fields = []
    for line in re.sub(r"//.*", "", body).split(";"):
        declaration = " ".join(line.split())
        if not declaration:
            continue
        name = re.search(r"\(\*(\w+)\)|(\w+)$", declaration.split(" = ")[0])
        kind = declaration.removeprefix("const ").split()[0]
        is_pointer = "*" in declaration
        fields.append((name[1] or name[2], ctypes.c_void_p if is_pointer else INTEGERS[kind]))
    return fields


def structs() -> dict:
    text = "".join((DECLARATIONS / name).read_text() for name in ("PjrtArguments.h", "PjrtBufferArguments.h"))
    found = {}
    for name, body in re.findall(r"struct (\w+) : Head \{(.*?)\};", text, re.S):
        try:
            fields = fields_of(body)
        except KeyError:
            continue  # of a struct with structs inside, which no call here needs
        head = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": head + fields})
    return found


class PluginError(Exception):
    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


class Table:
    """`table.call("Buffer_Dimensions", buffer=b)` gives the filled struct."""

    def __init__(self):
        plugin = ctypes.CDLL(str(plugin_path()[0]))
        names = re.findall(r"^  F\((\w+)\)", (DECLARATIONS / "PjrtAbi.h").read_text(), re.M)
        plugin.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_void_p * (5 + len(names)))
        api = plugin.GetPjrtApi().contents
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        self.functions = {name: function(api[5 + i]) for i, name in enumerate(names)}
        self.structs = structs()

    def make(self, name: str, **values):
        struct = self.structs[name]
        return struct(struct_size=ctypes.sizeof(struct), **values)

    def call(self, name: str, **values):
        arguments = self.make(name + "_Args", **values)
        error = self.functions[name](ctypes.addressof(arguments))
        if error:
            raise self.taken(error)
        return arguments

    def taken(self, error: int) -> PluginError:
        """An error as an exception; the error itself is destroyed."""
        said = self.make("Error_Message_Args", error=error)
        self.functions["Error_Message"](ctypes.addressof(said))
        text = ctypes.string_at(said.message, said.message_size).decode()
        code = self.make("Error_GetCode_Args", error=error)
        self.functions["Error_GetCode"](ctypes.addressof(code))
        self.functions["Error_Destroy"](ctypes.addressof(self.make("Error_Destroy_Args", error=error)))
        return PluginError(code.code, text)
