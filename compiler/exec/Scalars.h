//===- Scalars.h - Sizes as the artefact's scalar program -----------------===//
#pragma once

#include "codegen/schedule/core/Schedule.h"
#include "ir/tensor/Dim.h"
#include "runtime/artefact/artefact_generated.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

namespace knapper {

/// Turns Dims and guards into indices of `Program.values`, each expression
/// once. Symbols must have been declared first.
class ScalarTable {
public:
  explicit ScalarTable(fb::ProgramT &program) : program(program) {}

  void declare(llvm::StringRef symbol, int64_t min, int64_t max,
               int64_t divisor, bool fromBuffer);
  bool isDeclared(llvm::StringRef symbol) const {
    return symbols.contains(symbol);
  }
  uint32_t symbolIndex(llvm::StringRef symbol) const {
    return symbols.lookup(symbol);
  }

  uint32_t constant(int64_t value);
  uint32_t get(ts::Dim dim);
  /// 1 when the guard holds, 0 otherwise.
  uint32_t get(const Guard &guard);

private:
  uint32_t make(fb::ScalarOp op, uint32_t a, uint32_t b, int64_t immediate);

  fb::ProgramT &program;
  llvm::StringMap<uint32_t> symbols;
  llvm::DenseMap<mlir::Attribute, uint32_t> dims;
  std::map<std::tuple<fb::ScalarOp, uint32_t, uint32_t, int64_t>, uint32_t>
      known;
};

} // namespace knapper
