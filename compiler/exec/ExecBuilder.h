//===- ExecBuilder.h - Functions become regions of an exec program --------===//
//
// Private to this folder. The entry is region 0; each body of a branch or loop
// becomes a region of its own when its op is met, with the numbers that the
// artefact's schema gives instructions: in preorder. A temporary's live range
// grows with every instruction that names its buffer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/exec/ExecProgram.h"
#include "compiler/exec/InPlacePairs.h"
#include "compiler/exec/Scalars.h"
#include "graph/memory/Liveness.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace knapper {

class ExecBuilder {
public:
  ExecBuilder(mlir::func::FuncOp function, const KernelSet &kernels,
              const llvm::DenseMap<mlir::Operation *, KernelUse> &uses)
      : function(function), kernels(kernels), uses(uses),
        result{std::make_unique<fb::ProgramT>(), {}, {}},
        program(*result.program), scalars(program),
        zero(ts::Dim::constant(function.getContext(), 0)) {}

  llvm::LogicalResult run();
  ExecProgram take() { return std::move(result); }

private:
  /// Where a value lives: a buffer and a byte offset in it.
  struct Place {
    uint32_t buffer;
    ts::Dim offset;
  };

  static fb::DType dtypeOf(mlir::Type element);
  void declareSymbols();
  bool isLate(const Guard &guard) const;
  void addSignature(mlir::Value value, mlir::Attribute name,
                    llvm::StringRef fallback,
                    std::vector<std::unique_ptr<fb::TensorSignatureT>> &list);
  uint32_t addBuffer(fb::BufferKind kind, uint32_t index, ts::Dim bytes,
                     const std::string &name);
  Place addTemp(ts::Dim bytes, mlir::Location origin);
  llvm::FailureOr<Place> placeOf(mlir::Value value);
  llvm::FailureOr<Place> placeOfConstant(mlir::Value value,
                                         std::optional<PackedOperand> packing);
  /// As many zeros as any kernel shares.
  llvm::FailureOr<Place> placeOfZeros();
  /// Where the result of a kernel or a branch is written.
  Place placeOfResult(mlir::OpResult result);
  /// The place for the instruction that comes next, which reads it.
  fb::BufferRef refer(const Place &place);
  /// The same for what it writes.
  fb::BufferRef referWritten(const Place &place);
  /// The number of the instruction that comes next; in branches and loops that
  /// of the entry's instruction that they are part of.
  uint32_t entryNumber() const { return inEntry ? next : lastOfEntry; }
  /// Tells `memoryUses` where a launch may have a result in an input's memory.
  void noteInPlace(ts::KernelOp kernel);
  void touch(uint32_t buffer, uint32_t instruction);

  template <typename Instruction> Instruction *append(Instruction instruction);
  uint32_t addRegion();
  void addCopy(const Place &from, const Place &to, ts::Dim bytes);
  void setSymbols(llvm::ArrayRef<std::pair<mlir::StringAttr, ts::Dim>> list);
  std::unique_ptr<fb::CheckT> makeCheck(const Guard &guard, std::string message,
                                        mlir::Location location,
                                        std::string hint);
  void addCheck(const Guard &guard, std::string message,
                mlir::Location location, std::string hint);
  void addChecks(mlir::Operation *op, bool late);

  /// The ops of a function into the current region. `wanted` has the places of
  /// results that are to be written where they are needed.
  llvm::LogicalResult addOps(mlir::func::FuncOp body);
  /// A launch's choice of the library that was taken for its kernel.
  std::unique_ptr<fb::ChoiceT> vendorChoice(ts::KernelOp kernel,
                                            const UniqueKernel &unique,
                                            const KernelUse &use,
                                            ts::Dim written);
  llvm::LogicalResult addLaunch(ts::KernelOp kernel);
  llvm::LogicalResult addBind(ts::BindSizeOp op);
  llvm::LogicalResult addExternal(ts::ExternalOp op);
  llvm::LogicalResult addOutputs(mlir::func::ReturnOp op);
  void wantUpdated();

  // ControlFlow.cpp
  llvm::LogicalResult addIf(ts::IfOp op);
  llvm::LogicalResult addBranch(ts::IfOp op, mlir::func::FuncOp body,
                                mlir::ValueRange inputs);
  llvm::LogicalResult addLoop(ts::LoopOp op);
  llvm::LogicalResult addIteration(ts::LoopOp op, mlir::func::FuncOp body,
                                   llvm::ArrayRef<Place> state,
                                   std::optional<Place> condition,
                                   llvm::ArrayRef<Place> rows);
  /// Whether what computes `value` can write it where it is needed.
  static bool canWrite(mlir::Value value);
  /// Whether a carried value's memory is free when `value` is computed.
  bool alternates(ts::LoopOp op, mlir::func::FuncOp body, size_t index);
  bool mayReplace(mlir::func::FuncOp body, mlir::Value value,
                  mlir::BlockArgument argument);

  mlir::func::FuncOp function;
  const KernelSet &kernels;
  const llvm::DenseMap<mlir::Operation *, KernelUse> &uses;
  ExecProgram result;
  fb::ProgramT &program;
  ScalarTable scalars;
  ts::Dim zero;
  mlir::Value zeros; ///< a constant, made when it is needed
  llvm::DenseMap<mlir::Value, mlir::Value> inPlace;
  fb::RegionT *region = nullptr; ///< being filled
  bool inEntry = true;
  uint32_t next = 0;                         ///< number of the next instruction
  uint32_t lastOfEntry = 0;                  ///< of the entry's own
  MemoryUses memoryUses;                     ///< of inputs and outputs
  llvm::DenseMap<mlir::Value, Place> places; ///< roots
  llvm::DenseMap<mlir::Value, Place> wanted; ///< roots
  llvm::StringSet<> lateSymbols;
  llvm::DenseSet<uint32_t> asserted; ///< values, in the current region
};

template <typename Instruction>
Instruction *ExecBuilder::append(Instruction instruction) {
  auto box = std::make_unique<fb::InstructionBoxT>();
  box->instruction.Set(std::move(instruction));
  region->instructions.push_back(std::move(box));
  lastOfEntry = entryNumber();
  ++next;
  return static_cast<Instruction *>(
      region->instructions.back()->instruction.value);
}

} // namespace knapper
