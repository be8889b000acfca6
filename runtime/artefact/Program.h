// A program of an artefact, decoded and checked for one target. Every index in
// it is in range, regions end, values have an order: what executes it need not
// look again.
#pragma once

#include "runtime/artefact/Artefact.h"
#include "runtime/base/DType.h"
#include "runtime/base/GpuEntry.h"
#include "runtime/base/Vendor.h"
#include "runtime/operators/Operator.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace knapper {

/// "Late" things depend on symbols that instructions set while the program
/// runs: they are known only then. "Optional" things are used by branches and
/// loop bodies only: sizes for which they make no sense are an error when they
/// are reached, not before.
struct Program {
  struct Symbol {
    const char *name;
    int64_t min;
    int64_t max; // -1: unbounded
    int64_t divisor;
    bool late;
  };
  struct Value {
    fb::ScalarOp op;
    uint32_t a, b;
    int64_t imm;
    bool late;
  };
  struct Check {
    uint32_t value;
    const char *message, *where, *hint;
  };
  struct Tensor {
    const char *name;
    DType dtype;
    std::vector<uint32_t> dims; // values
    std::vector<const char *> dimText;
    std::vector<int64_t> staticDims; // -1 where symbolic
    bool late;
    uint64_t indexLimit; // see TensorSignature
  };
  struct Buffer {
    fb::BufferKind kind;
    uint32_t index;       // input, output: which
    uint32_t bytes;       // temp: value
    uint32_t first, last; // temp: live range
    bool late;            // temp: its size is
    uint64_t constantOffset, constantBytes;
    const fb::Buffer *source;
    const char *name;
    bool optional = true; // temp
  };
  struct Ref {
    uint32_t buffer;
    uint32_t offset; // value
  };
  struct Map {
    uint32_t arg;
    DType dtype;
    uint32_t rank;   // 1 to kMaxMapRank
    uint32_t offset; // value, as the next two
    uint32_t sizes[kMaxMapRank], strides[kMaxMapRank - 1];
    uint32_t box[kMaxMapRank];
    uint32_t swizzle;
    bool tf32;
  };
  /// See fb::VendorMatmul; offset, strides and sizes are values.
  struct Matrix {
    uint32_t arg;
    DType dtype;
    uint32_t offset, rowStride, columnStride;
    std::vector<uint32_t> batchStrides;
  };
  struct Matmul {
    VendorLibrary library;
    std::vector<uint32_t> batch;
    uint32_t rows, columns, depth;
    Matrix lhs, rhs, result;
    std::optional<Matrix> bias;
    VendorActivation activation;
    bool tf32;

    void forEachValue(auto visit) const {
      for (uint32_t v : batch)
        visit(v);
      for (uint32_t v : {rows, columns, depth})
        visit(v);
      for (const Matrix *m : {&lhs, &rhs, &result, bias ? &*bias : nullptr}) {
        if (!m)
          continue;
        for (uint32_t v : {m->offset, m->rowStride, m->columnStride})
          visit(v);
        for (uint32_t v : m->batchStrides)
          visit(v);
      }
    }
  };
  struct Choice {
    uint32_t guard, kernel, grid, grain, scratch; // values but for the kernel
    std::vector<uint32_t> symbols;
    const char *label;
    std::vector<Map> maps;
    std::optional<Matmul> matmul; // of a library's kernel
  };
  struct Launch {
    std::vector<Choice>
        choices; // those with code for the target, and of libraries
    std::vector<Ref> args;
    uint32_t flops, bytes;
    const char *origin;
    bool late; // some value of it is
    bool optional = true;
  };
  /// A tensor of an external operator; a place without a buffer (kNone): left
  /// out.
  struct ExternalTensor {
    Ref place;
    DType dtype;
    std::vector<uint32_t> dims; // values
  };
  struct Instruction {
    fb::Instruction op;
    uint32_t index = 0; // launch, symbol, assignment, assertion, external,
                        // first region
    uint32_t other = 0; // If: else region; While: body region; Repeat: counter
    uint32_t bytes = 0; // Copy: value; Repeat: trips
    Ref source = {}, target = {}; // source is also the condition; a Repeat
                                  // without one has buffer kNone
  };
  /// What is computed anew when a late symbol is set, each in order.
  struct Dependents {
    std::vector<uint32_t> values, checks, buffers, outputs, launches;
  };
  /// Symbols with the values that they are set to, and all that hangs on them.
  struct Assignment {
    std::vector<std::pair<uint32_t, uint32_t>> symbols;
    Dependents dependents;
  };

  /// An operator of the host's.
  struct External {
    const char *domain, *name;
    OperatorNode node;
    std::vector<ExternalTensor> inputs, outputs;
    std::vector<uint32_t> symbols; // sorted
    Dependents dependents;         // of all of them
  };

  const char *name;
  std::vector<Symbol> symbols;
  std::vector<Value> values;
  std::vector<Check> checks;
  std::vector<Tensor> inputs, outputs;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches; // in the order of regions
  std::vector<Assignment> assignments;
  std::vector<Check> assertions;
  std::vector<External> externals;
  std::vector<std::vector<Instruction>> regions;
  std::vector<Dependents> dependents; // per symbol; empty for those of inputs
  std::vector<uint32_t> inputBuffer, outputBuffer; // kNone: not used
  /// Per output, the inputs that it may be given the very memory of.
  std::vector<std::vector<uint32_t>> inPlace;
  std::vector<bool> kernelUsed;
  bool hasLate = false;
  bool hasText = false; // strings among the inputs or outputs

  bool mayReplace(uint32_t output, uint32_t input) const;

  static constexpr uint32_t kNone = ~uint32_t(0);

  /// Decodes header().programs[index] for header().targets[target]. The result
  /// points into the artefact.
  static Expected<Program> decode(const Artefact &artefact, uint32_t index,
                                  uint32_t target);
};

} // namespace knapper
