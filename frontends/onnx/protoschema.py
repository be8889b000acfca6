"""A .proto file as messages with fields. Of the language it knows proto2 without
groups, maps, extensions and imports; anything else stops it."""

from __future__ import annotations

import dataclasses
import re

# kind: (C++ type, wire type, how a value is read and written)
SCALARS = {
    "int32": ("int32_t", 0, "varint"),
    "int64": ("int64_t", 0, "varint"),
    "uint32": ("uint32_t", 0, "varint"),
    "uint64": ("uint64_t", 0, "varint"),
    "bool": ("bool", 0, "varint"),
    "float": ("float", 5, "fixed"),
    "double": ("double", 1, "fixed"),
    "string": ("std::string", 2, "bytes"),
    "bytes": ("std::string", 2, "bytes"),
}


@dataclasses.dataclass
class Field:
    label: str
    kind: str
    name: str
    number: int
    packed: bool
    oneof: str = ""


@dataclasses.dataclass
class Enum:
    name: str
    values: list[tuple[str, int]]


@dataclasses.dataclass
class Message:
    name: str  # with its parents: Outer_Inner
    parent: Message | None
    fields: list[Field] = dataclasses.field(default_factory=list)
    enums: list[Enum] = dataclasses.field(default_factory=list)
    messages: list[Message] = dataclasses.field(default_factory=list)
    oneofs: list[str] = dataclasses.field(default_factory=list)


class Parser:
    def __init__(self, text: str):
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
        self.tokens = re.findall(r'"[^"]*"|[A-Za-z_][\w.]*|-?\d+|\S', text)
        self.at = 0
        self.package = ""
        self.all: list[Message] = []

    def take(self, wanted: str | None = None) -> str:
        token = self.tokens[self.at]
        if wanted is not None and token != wanted:
            around = " ".join(self.tokens[max(0, self.at - 5) : self.at + 3])
            raise SystemExit(f"protogen: expected '{wanted}' in: {around}")
        self.at += 1
        return token

    def file(self) -> list[Message]:
        top = []
        while self.at < len(self.tokens):
            word = self.take()
            if word == "syntax":
                self.take("=")
                self.take('"proto2"')
                self.take(";")
            elif word == "package":
                self.package = self.take()
                self.take(";")
            elif word == "option":
                while self.take() != ";":
                    pass
            elif word == "message":
                top.append(self.message(None))
            elif word != ";":
                raise SystemExit(f"protogen: no support for '{word}'")
        return top

    def message(self, parent: Message | None) -> Message:
        name = self.take()
        found = Message(f"{parent.name}_{name}" if parent else name, parent)
        self.take("{")
        while (word := self.take()) != "}":
            if word == "message":
                found.messages.append(self.message(found))
            elif word == "enum":
                found.enums.append(self.enum())
            elif word == "oneof":
                oneof = self.take()
                found.oneofs.append(oneof)
                self.take("{")
                while (kind := self.take()) != "}":
                    found.fields.append(self.field("optional", kind, oneof))
            elif word in ("optional", "repeated"):
                found.fields.append(self.field(word, self.take()))
            elif word in ("reserved", "extensions"):
                while self.take() != ";":
                    pass
            elif word != ";":
                raise SystemExit(f"protogen: no support for '{word}' in {name}")
        self.all.append(found)
        return found

    def enum(self) -> Enum:
        name = self.take()
        self.take("{")
        values = []
        while (word := self.take()) != "}":
            self.take("=")
            values.append((word, int(self.take())))
            self.take(";")
        return Enum(name, values)

    def field(self, label: str, kind: str, oneof: str = "") -> Field:
        name = self.take()
        self.take("=")
        number = int(self.take())
        packed = False
        if self.tokens[self.at] == "[":
            self.take("[")
            option = self.take()
            self.take("=")
            value = self.take()
            self.take("]")
            if option != "packed":
                raise SystemExit(f"protogen: no support for option '{option}'")
            packed = value == "true"
        self.take(";")
        return Field(label, kind, name, number, packed, oneof)
