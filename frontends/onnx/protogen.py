#!/usr/bin/env python3
"""Writes C++ classes for the messages of a .proto file.

    protogen.py FILE.proto OUT.h OUT.cpp

The classes have the accessors that protoc's would have (x(), has_x(), set_x(),
mutable_x(), x_size(), add_x(), ParseFromArray, SerializeAsString), hold plain
std:: members and need no library: Debian's libprotobuf.a is not position
independent, so a shared library cannot contain it. protoschema.py says what it
knows of the language.

Reading trusts nothing: lengths are checked against the message around them,
nesting ends at 100, unknown fields are skipped.
"""

from __future__ import annotations

import sys
from pathlib import Path

from protoschema import SCALARS, Enum, Field, Message, Parser


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


class Writer:
    def __init__(self, parser: Parser):
        self.parser = parser
        self.by_name = {m.name: m for m in parser.all}

    def resolve(self, message: Message, kind: str) -> tuple[str, Message | Enum | None]:
        """(C++ type, definition) of a field's type seen from a message."""
        if kind in SCALARS:
            return SCALARS[kind][0], None
        scope: Message | None = message
        path = kind.replace(".", "_")
        while scope is not None:
            for enum in scope.enums:
                if enum.name == path:
                    return f"{scope.name}::{enum.name}", enum
            if f"{scope.name}_{path}" in self.by_name:
                return f"{scope.name}_{path}", self.by_name[f"{scope.name}_{path}"]
            scope = scope.parent
        if path not in self.by_name:
            raise SystemExit(f"protogen: {message.name}: no type '{kind}'")
        return path, self.by_name[path]

    def header(self, source: str) -> str:
        namespaces = self.parser.package.replace(".", "::")
        out = [
            f"// Generated from {source} by protogen.py.",
            "#pragma once",
            "#include <cstdint>",
            "#include <memory>",
            "#include <string>",
            "#include <utility>",
            "#include <vector>",
            "",
            f"namespace {namespaces} {{",
            "",
            "/// A sub-message that may be absent; copies are deep.",
            "template <class T> class Owned {",
            "public:",
            "  Owned() = default;",
            "  Owned(Owned &&) = default;",
            "  Owned(const Owned &other) { *this = other; }",
            "  Owned &operator=(Owned &&) = default;",
            "  Owned &operator=(const Owned &other) {",
            "    if (this != &other)",
            "      held.reset(other.held ? new T(*other.held) : nullptr);",
            "    return *this;",
            "  }",
            "  T *get() const { return held.get(); }",
            "  T &make() {",
            "    if (!held)",
            "      held.reset(new T());",
            "    return *held;",
            "  }",
            "  void reset() { held.reset(); }",
            "",
            "private:",
            "  std::unique_ptr<T> held;",
            "};",
            "",
        ]
        out += [f"class {m.name};" for m in self.parser.all] + [""]
        for message in self.order():
            out += self.declare(message)
        out += [f"}} // namespace {namespaces}", ""]
        return "\n".join(out)

    def order(self) -> list[Message]:
        """Messages so that nested enums and types are known when used."""
        return self.parser.all

    def declare(self, message: Message) -> list[str]:
        name = message.name
        out = [f"class {name} {{", "public:"]
        out += [
            f"  {name}();",
            f"  ~{name}();",
            f"  {name}(const {name} &);",
            f"  {name}({name} &&) noexcept;",
            f"  {name} &operator=(const {name} &);",
            f"  {name} &operator=({name} &&) noexcept;",
            f"  static const {name} &default_instance();",
            "  /// False when the bytes are no such message; holds what was read",
            "  /// until then.",
            "  bool ParseFromArray(const void *data, int size);",
            "  bool ParseFromString(const std::string &data);",
            "  std::string SerializeAsString() const;",
            "  bool SerializeToString(std::string *out) const;",
            f"  void CopyFrom(const {name} &other) {{ *this = other; }}",
            f"  void Clear() {{ *this = {name}(); }}",
            "",
        ]
        for inner in message.messages:
            short = inner.name[len(name) + 1 :]
            out.append(f"  using {short} = {inner.name};")
        for enum in message.enums:
            out.append(f"  enum {enum.name} : int {{")
            out += [f"    {value} = {number}," for value, number in enum.values]
            out += [
                "  };",
                f"  static bool {enum.name}_IsValid(int value);",
                '  /// "" for a value that the schema does not have.',
                f"  static const std::string &{enum.name}_Name(int value);",
            ]
        for oneof in message.oneofs:
            out.append(f"  enum {camel(oneof)}Case : int {{")
            out += [
                f"    k{camel(f.name)} = {f.number},"
                for f in message.fields
                if f.oneof == oneof
            ]
            out += [
                f"    {oneof.upper()}_NOT_SET = 0,",
                "  };",
                f"  {camel(oneof)}Case {oneof}_case() const;",
                f"  void clear_{oneof}();",
            ]
        for field in message.fields:
            out += self.accessors(message, field)
        out += ["", "  // For the reader and writer of the messages around it.",
                "  bool merge(const unsigned char *&at, const unsigned char *end,",
                "             unsigned depth);",
                "  void append(std::string &out) const;",
                "", "private:"]
        for field in message.fields:
            kind, definition = self.resolve(message, field.kind)
            if field.label == "repeated":
                out.append(f"  std::vector<{kind}> {field.name}_;")
            elif isinstance(definition, Message):
                out.append(f"  Owned<{kind}> {field.name}_;")
            else:
                first = ""
                if isinstance(definition, Enum):
                    first = f" = {kind}({definition.values[0][1]})"
                elif kind != "std::string":
                    first = " = {}"
                out.append(f"  {kind} {field.name}_{first};")
                out.append(f"  bool has_{field.name}_ = false;")
        out += ["};", ""]
        return out

    def accessors(self, message: Message, field: Field) -> list[str]:
        kind, definition = self.resolve(message, field.kind)
        n = field.name
        text = kind == "std::string"
        sub = isinstance(definition, Message)
        if field.label == "repeated":
            value = f"const {kind} &" if text or sub else f"{kind} "
            out = [
                f"  int {n}_size() const;",
                f"  {value}{n}(int index) const;",
                f"  const std::vector<{kind}> &{n}() const {{ return {n}_; }}",
                f"  std::vector<{kind}> *mutable_{n}() {{ return &{n}_; }}",
                f"  void clear_{n}();",
            ]
            if text:
                out += [
                    f"  void add_{n}(std::string value);",
                    f"  std::string *mutable_{n}(int index);",
                ]
            elif sub:
                out += [f"  {kind} *add_{n}();", f"  {kind} *mutable_{n}(int index);"]
            else:
                out += [
                    f"  void add_{n}({kind} value) {{ {n}_.push_back(value); }}",
                    f"  void set_{n}(int index, {kind} value) {{ {n}_[index] = value; }}",
                ]
            return out
        clear = f"clear_{field.oneof}(); " if field.oneof else ""
        if sub:
            return [
                f"  bool has_{n}() const {{ return {n}_.get() != nullptr; }}",
                f"  const {kind} &{n}() const;",
                f"  {kind} *mutable_{n}();",
                f"  void clear_{n}();",
            ]
        value = "std::string" if text else kind
        get = "const std::string &" if text else f"{kind} "
        out = [
            f"  bool has_{n}() const {{ return has_{n}_; }}",
            f"  {get}{n}() const {{ return {n}_; }}",
            f"  void set_{n}({value} value) {{",
            f"    {clear}{n}_ = std::move(value);",
            f"    has_{n}_ = true;",
            "  }",
            f"  void clear_{n}() {{",
            f"    {n}_ = {value}({'' if not isinstance(definition, Enum) else definition.values[0][1]});",
            f"    has_{n}_ = false;",
            "  }",
        ]
        if text:
            out += [
                f"  std::string *mutable_{n}() {{",
                f"    {clear}has_{n}_ = true;",
                f"    return &{n}_;",
                "  }",
            ]
        return out

    # ---- the source file

    def source(self, header: str) -> str:
        namespaces = self.parser.package.replace(".", "::")
        out = [
            f"// Generated with {header}.",
            f'#include "{header}"',
            "#include <cstring>",
            "",
            f"namespace {namespaces} {{",
            WIRE,
        ]
        for message in self.parser.all:
            out += self.define(message)
        out += [f"}} // namespace {namespaces}", ""]
        return "\n".join(out)

    def define(self, message: Message) -> list[str]:
        name = message.name
        out = [
            f"{name}::{name}() = default;",
            f"{name}::~{name}() = default;",
            f"{name}::{name}(const {name} &) = default;",
            f"{name}::{name}({name} &&) noexcept = default;",
            f"{name} &{name}::operator=(const {name} &) = default;",
            f"{name} &{name}::operator=({name} &&) noexcept = default;",
            f"const {name} &{name}::default_instance() {{",
            f"  static const {name} instance;",
            "  return instance;",
            "}",
            f"bool {name}::ParseFromArray(const void *data, int size) {{",
            f"  *this = {name}();",
            "  auto at = static_cast<const unsigned char *>(data);",
            "  return size >= 0 && merge(at, at + size, 0);",
            "}",
            f"bool {name}::ParseFromString(const std::string &data) {{",
            f"  *this = {name}();",
            "  auto at = reinterpret_cast<const unsigned char *>(data.data());",
            "  return merge(at, at + data.size(), 0);",
            "}",
            f"std::string {name}::SerializeAsString() const {{",
            "  std::string out;",
            "  append(out);",
            "  return out;",
            "}",
            f"bool {name}::SerializeToString(std::string *out) const {{",
            "  *out = SerializeAsString();",
            "  return true;",
            "}",
        ]
        for enum in message.enums:
            unique = {number: value for value, number in reversed(enum.values)}
            out += [f"bool {name}::{enum.name}_IsValid(int value) {{", "  switch (value) {"]
            out += [f"  case {number}:" for number in sorted(unique)]
            out += ["    return true;", "  }", "  return false;", "}"]
            out += [
                f"const std::string &{name}::{enum.name}_Name(int value) {{",
                "  switch (value) {",
            ]
            for number in sorted(unique):
                out += [
                    f"  case {number}: {{",
                    f'    static const std::string text = "{unique[number]}";',
                    "    return text;",
                    "  }",
                ]
            out += ["  }", "  static const std::string none;", "  return none;", "}"]
        for oneof in message.oneofs:
            members = [f for f in message.fields if f.oneof == oneof]
            out += [f"{name}::{camel(oneof)}Case {name}::{oneof}_case() const {{"]
            out += [f"  if (has_{f.name}())\n    return k{camel(f.name)};" for f in members]
            out += [f"  return {oneof.upper()}_NOT_SET;", "}"]
            out += [f"void {name}::clear_{oneof}() {{"]
            out += [f"  clear_{f.name}();" for f in members] + ["}"]
        for field in message.fields:
            out += self.define_field(message, field)
        return out + self.define_merge(message) + self.define_append(message) + [""]

    def define_field(self, message: Message, field: Field) -> list[str]:
        kind, definition = self.resolve(message, field.kind)
        n, name = field.name, message.name
        text = kind == "std::string"
        sub = isinstance(definition, Message)
        scoped = f"{kind}"
        if field.label == "repeated":
            value = f"const {scoped} &" if text or sub else f"{scoped} "
            out = [
                f"int {name}::{n}_size() const {{ return static_cast<int>({n}_.size()); }}",
                f"{value}{name}::{n}(int index) const {{ return {n}_[index]; }}",
                f"void {name}::clear_{n}() {{ {n}_.clear(); }}",
            ]
            if text:
                out += [
                    f"void {name}::add_{n}(std::string value) {{ {n}_.push_back(std::move(value)); }}",
                    f"std::string *{name}::mutable_{n}(int index) {{ return &{n}_[index]; }}",
                ]
            elif sub:
                out += [
                    f"{kind} *{name}::add_{n}() {{ return &{n}_.emplace_back(); }}",
                    f"{kind} *{name}::mutable_{n}(int index) {{ return &{n}_[index]; }}",
                ]
            return out
        if sub:
            clear = (
                f"  if (!has_{n}())\n    clear_{field.oneof}();\n" if field.oneof else ""
            )
            return [
                f"const {kind} &{name}::{n}() const {{",
                f"  return {n}_.get() ? *{n}_.get() : {kind}::default_instance();",
                "}",
                f"{kind} *{name}::mutable_{n}() {{",
                f"{clear}  return &{n}_.make();",
                "}",
                f"void {name}::clear_{n}() {{ {n}_.reset(); }}",
            ]
        return []

    def define_merge(self, message: Message) -> list[str]:
        out = [
            f"bool {message.name}::merge(const unsigned char *&at,",
            "    const unsigned char *end, unsigned depth) {",
            "  if (depth > maxDepth)",
            "    return false;",
            "  while (at < end) {",
            "    uint64_t tag;",
            "    if (!readVarint(at, end, tag))",
            "      return false;",
            "    [[maybe_unused]] const unsigned char *inner;",
            "    switch (tag) {",
        ]
        for field in message.fields:
            kind, definition = self.resolve(message, field.kind)
            n = field.name
            repeated = field.label == "repeated"
            if isinstance(definition, Message):
                target = f"{n}_.emplace_back()" if repeated else f"(*mutable_{n}())"
                out += [
                    f"    case {field.number << 3 | 2}: // {n}",
                    "      if (!readLength(at, end, inner))",
                    "        return false;",
                    f"      if (!{target}.merge(at, inner, depth + 1) || at != inner)",
                    "        return false;",
                    "      continue;",
                ]
                continue
            if kind == "std::string":
                store = f"{n}_.emplace_back" if repeated else f"mutable_{n}()->assign"
                out += [
                    f"    case {field.number << 3 | 2}: // {n}",
                    "      if (!readLength(at, end, inner))",
                    "        return false;",
                    f"      {store}(reinterpret_cast<const char *>(at), inner - at);",
                    "      at = inner;",
                    "      continue;",
                ]
                continue
            enum = isinstance(definition, Enum)
            wire, way = (0, "varint") if enum else SCALARS[field.kind][1:]
            if enum:
                known = f"{kind}_IsValid(static_cast<int>(value))"
                action = f"{n}_.push_back(static_cast<{kind}>(value))" if repeated else f"set_{n}(static_cast<{kind}>(value))"
                store = f"if ({known})\n        {action};"
            else:
                cast = f"value != 0" if kind == "bool" else f"static_cast<{kind}>(value)"
                if way == "fixed":
                    cast = "value"
                store = f"{n}_.push_back({cast});" if repeated else f"set_{n}({cast});"
            declare = f"{kind} value;" if way == "fixed" else "uint64_t value;"
            read = "readFixed(at, end, value)" if way == "fixed" else "readVarint(at, end, value)"
            out += [
                f"    case {field.number << 3 | wire}: {{ // {n}",
                f"      {declare}",
                f"      if (!{read})",
                "        return false;",
                f"      {store}",
                "      continue;",
                "    }",
            ]
            if repeated:
                inside = read.replace("end", "inner")
                out += [
                    f"    case {field.number << 3 | 2}: // {n}, packed",
                    "      if (!readLength(at, end, inner))",
                    "        return false;",
                    "      while (at < inner) {",
                    f"        {declare}",
                    f"        if (!{inside})",
                    "          return false;",
                    f"        {store}",
                    "      }",
                    "      continue;",
                ]
        out += [
            "    default:",
            "      if (!skip(tag, at, end))",
            "        return false;",
            "    }",
            "  }",
            "  return true;",
            "}",
        ]
        return out

    def define_append(self, message: Message) -> list[str]:
        out = [f"void {message.name}::append([[maybe_unused]] std::string &out) const {{"]
        for field in sorted(message.fields, key=lambda f: f.number):
            kind, definition = self.resolve(message, field.kind)
            n = field.name
            repeated = field.label == "repeated"
            each = f"for (const auto &value : {n}_)" if repeated else f"if (has_{n}())"
            value = "value" if repeated else f"{n}()"
            if isinstance(definition, Message):
                out += [
                    f"  {each} {{",
                    f"    writeBytes(out, {field.number}, {value}.SerializeAsString());",
                    "  }",
                ]
            elif kind == "std::string":
                out += [f"  {each}", f"    writeBytes(out, {field.number}, {value});"]
            else:
                enum = isinstance(definition, Enum)
                wire, way = (0, "varint") if enum else SCALARS[field.kind][1:]
                write = (
                    "writeFixed(OUT, {v})"
                    if way == "fixed"
                    else "writeVarint(OUT, static_cast<uint64_t>(static_cast<int64_t>({v})))"
                )
                if repeated and field.packed:
                    inner = write.replace("OUT", "inner").format(v="value")
                    out += [
                        f"  if (!{n}_.empty()) {{",
                        "    std::string inner;",
                        f"    for (auto value : {n}_)",
                        f"      {inner};",
                        f"    writeBytes(out, {field.number}, inner);",
                        "  }",
                    ]
                else:
                    out += [
                        f"  {each} {{",
                        f"    writeVarint(out, {field.number << 3 | wire});",
                        f"    {write.replace('OUT', 'out').format(v=value)};",
                        "  }",
                    ]
        return out + ["}"]


WIRE = """
namespace {

constexpr unsigned maxDepth = 100;

[[maybe_unused]] bool readVarint(const unsigned char *&at,
                                 const unsigned char *end, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at == end)
      return false;
    unsigned char byte = *at++;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

// The end of a length-delimited value that starts at `at` afterwards.
[[maybe_unused]] bool readLength(const unsigned char *&at,
                                 const unsigned char *end,
                                 const unsigned char *&inner) {
  uint64_t length;
  if (!readVarint(at, end, length) || length > static_cast<uint64_t>(end - at))
    return false;
  inner = at + length;
  return true;
}

template <class T>
[[maybe_unused]] bool readFixed(const unsigned char *&at,
                                const unsigned char *end, T &value) {
  if (static_cast<size_t>(end - at) < sizeof(T))
    return false;
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
  return true;
}

// Skips the value of a field that the schema does not have.
bool skip(uint64_t tag, const unsigned char *&at, const unsigned char *end) {
  uint64_t number;
  const unsigned char *inner;
  if (tag >> 3 == 0)
    return false;
  switch (tag & 7) {
  case 0:
    return readVarint(at, end, number);
  case 1:
    return readFixed(at, end, number);
  case 2:
    if (!readLength(at, end, inner))
      return false;
    at = inner;
    return true;
  case 5: {
    uint32_t word;
    return readFixed(at, end, word);
  }
  }
  return false;
}

[[maybe_unused]] void writeVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class T>
[[maybe_unused]] void writeFixed(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

[[maybe_unused]] void writeBytes(std::string &out, uint64_t number,
                                 const std::string &bytes) {
  writeVarint(out, number << 3 | 2);
  writeVarint(out, bytes.size());
  out += bytes;
}

} // namespace
"""


def main() -> int:
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    schema, header, source = map(Path, sys.argv[1:])
    parser = Parser(schema.read_text())
    parser.file()
    writer = Writer(parser)
    header.write_text(writer.header(schema.name))
    source.write_text(writer.source(header.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
