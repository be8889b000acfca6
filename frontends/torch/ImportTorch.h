//===- ImportTorch.h - A graph of ATen operators as tensor IR -------------===//
//
// The graph comes as JSON, which `knapper.torch` writes of a graph that
// AOTAutograd has made functional:
//
//   {"version": 1, "fallback": false,
//    "inputs":  [{"name", "dtype", "shape": [8, "s77"], "order"?, "binds"?}],
//    "nodes":   [{"name", "op": "aten.add.Tensor", "line": "model.py:12",
//                 "args": {"self": {"%": "x"}, "alpha": 1},
//                 "operands": ["x"], "common"?,
//                 "results": [{"dtype", "shape", "used"}]}],
//    "outputs": [{"name", "value": "add", "order"?, "narrow"?}]}
//
// - `args` has every argument of the operator's schema by its name, defaults
//   filled in: null, true, 1, {"f": "0.5"}, {"%": value}, {"dtype": "f32"},
//   {"text": "none"}, lists of these. A size is a number or an expression that
//   `Dim::str` could have written: 8, {"s": "2*s77"}.
// - A node's results are values of its name; of several, "name#1" is the
// second.
// - `order` lists the dims of a tensor from the outermost in memory to the
//   innermost, where that is not their own order.
// - An input with an `offset` is a constant: its data lies so many bytes into
//   the data, row-major; `of` is the parameter's name. The data begins at the
//   first multiple of 64 bytes behind the null byte that ends the JSON.
// - `binds`: the input is a 0-d i64, the value of that symbol.
// - `common`: the dtype that a comparison is made in.
// - `narrow`: dims along which the output has one element, being a view that
//   repeats it.
// - A node of control flow has `graphs`: {"inputs": ["cond/x"], "nodes",
//   "outputs": ["cond/add"]} each, whose names are unique in the description.
//   Inputs are the tensors among the node's operands; what else a graph reads
//   is a value of the graph around it.
// - `operands`: the tensors among the arguments.
// - `on_device`: torch calls the node's operator with addresses of the device.
// - `random`?: overloads that draw random numbers: torch computes them, from
//   its generator, whatever `fallback` says.
// - `saturating`?: dtypes of eight bits to which torch saturates; to others what
//   is too large becomes infinity, or NaN where there is none.
// - `fallback`: a node without a row becomes a ts.external of the domain
// "torch",
//   which the process registers an operator for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Error.h"
#include "llvm/ADT/StringRef.h"
#include <string_view>

namespace knapper {

/// Imports a graph; the result is a module as `importOnnx` makes it. Sizes that
/// torch claims and the operators do not give by form are checked by the run.
/// `bytes`: the description and, behind a null byte, the constants' data;
/// `path` is the file that they come from, empty for memory, which must then
/// live as long as the module's weights are read. `context` gets the dialects
/// that the result needs. Errors: UserError that lists every node without a
/// row, with its shapes and the line of the user's program; InternalError for a
/// description that is damaged, and where a row gives another type than torch
/// says.
Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(mlir::MLIRContext &context, std::string_view bytes,
            const std::string &path);

/// Whether the front end has a row for an overload, "aten.add.Tensor".
bool hasTorchRow(llvm::StringRef overload);
/// All of them, a line each, sorted.
std::string torchRows();

} // namespace knapper
