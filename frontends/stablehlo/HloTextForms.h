//===- HloTextForms.h - Forms of StableHLO's ops and attributes in text ---===//
//
// Ops in pretty form are read into the attributes that bytecode has; ops in
// generic form have the project's own attributes, which `flattenHlo` turns into
// the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

namespace knapper {

/// Parses what follows the name of an op in pretty form.
mlir::ParseResult parseHloForm(llvm::StringRef op, mlir::OpAsmParser &parser,
                               mlir::OperationState &state);

/// Ops of chlo, which have two forms: "chlo.erf %x : type -> type" and
/// "chlo.top_k(%x, k = 2) : type -> (type, type)".
llvm::ArrayRef<llvm::StringRef> hloChloOps();

/// Parses an attribute of the dialect: an enumeration as its text, a struct as
/// a dictionary, what the importer reads nothing of as a unit.
mlir::Attribute parseHloAttribute(mlir::DialectAsmParser &parser);

/// "key = value, key = value" up to the ">", which is read too.
mlir::FailureOr<mlir::DictionaryAttr> parseHloStruct(mlir::AsmParser &parser);

/// "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]" as the dims of a convolution.
mlir::ParseResult parseHloConvolutionDims(mlir::AsmParser &parser,
                                          mlir::NamedAttrList &attributes);

/// Integers as a tensor of i64, as bytecode has them.
mlir::Attribute hloIntegers(mlir::Builder &b, llvm::ArrayRef<int64_t> values);

/// Gives an op the attributes that bytecode would have, under those names.
void flattenHlo(mlir::Operation *op);

} // namespace knapper
