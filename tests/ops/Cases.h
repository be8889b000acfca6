//===- Cases.h - The list of op cases, as the runner sees it --------------===//
#pragma once

#include "ir/tensor/reference/Evaluate.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace knapper::opcases {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

/// How far a compiled result may be from the reference.
struct Tolerance {
  enum Kind { exact, ulp, relative } kind = exact;
  double bound = 0;
};

/// One row of tests/ops/cases.py.
struct OpCase {
  std::string name;
  std::string mlir;
  std::vector<std::string> inputs; ///< how values are made
  std::vector<std::string> inputNames;
  std::vector<Sizes> sizes, speed;
  Tolerance tolerance;
};

Expected<std::vector<OpCase>> readCases(const std::string &path);

/// "a=3 b=5"
std::string sizesText(const Sizes &sizes);

/// Values for the function's inputs at the given sizes; the same in every run.
Expected<std::vector<ts::HostTensor>> makeInputs(const OpCase &opCase,
                                                 mlir::func::FuncOp function,
                                                 const Sizes &sizes);

/// What is wrong with `actual`, in words with the first element that is; empty
/// when it is within the tolerance. Two NaN are equal, and so are two zeros.
std::string difference(const ts::HostTensor &expected,
                       const ts::HostTensor &actual, Tolerance tolerance);

} // namespace knapper::opcases
