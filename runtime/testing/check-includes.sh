#!/bin/sh
# check-includes.sh ROOT: nothing that ships to a device includes the compiler or LLVM.
set -eu
cd "$1"
found=$(grep -rnE '#include *[<"](llvm|mlir|lld|clang|compiler|ir|graph|codegen|targets|frontends)/' \
  runtime include capi/Error.cpp capi/FindObject.cpp capi/Handles.h capi/InspectApi.cpp \
  capi/NoCompiler.cpp capi/Operators.cpp capi/Runtime.cpp || true)
[ -z "$found" ] || { echo "$found"; exit 1; }
