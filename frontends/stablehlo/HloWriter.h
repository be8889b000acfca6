//===- HloWriter.h - Tensor IR as StableHLO's text ------------------------===//
//
// The other way: a module of tensor IR with sizes that are numbers becomes
// portable text, in the generic form, which every reader of StableHLO takes. A
// row an op (HloWriterElements.cpp and its kind); what has none is refused, all
// at once.
//
//   void writeTan(HloWriter &w, ts::TanOp op) {
//     w.out(op, w.make("tan", {w.of(op.getInput())}, op.getType()));
//   }
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/FrontEnd.h"
#include "ir/tensor/Dialect.h"
#include "llvm/Support/MemoryBuffer.h"

namespace knapper {

/// A value of the text.
struct HloText {
  std::string name; ///< "%12"
  mlir::RankedTensorType type;
};

class HloWriter {
public:
  explicit HloWriter(const ModelBuffers &buffers) : buffers(buffers) {}

  /// The module's main. Composites are taken apart in it. Errors: UserError
  /// with every op that cannot be written.
  Expected<std::string> write(mlir::ModuleOp module);

  //===--------------------------------------------------------------------===//
  // For rows
  //===--------------------------------------------------------------------===//
  HloText of(mlir::Value value);
  void out(mlir::Operation *op, HloText value, unsigned result = 0);
  /// What the op does has no spelling; the rest is written to report all.
  void refuse(mlir::Operation *op, const llvm::Twine &reason);

  /// An op of one result; `attributes` stand between <{ and }>, `region` is
  /// what `region` gave.
  HloText make(llvm::StringRef op, llvm::ArrayRef<HloText> operands,
               mlir::Type type, const std::string &attributes = "",
               const std::string &region = "");
  /// The same with several results.
  llvm::SmallVector<HloText> makeSeveral(llvm::StringRef op,
                                         llvm::ArrayRef<HloText> operands,
                                         llvm::ArrayRef<mlir::Type> types,
                                         const std::string &attributes,
                                         const std::string &region);
  /// A region of scalars of these element types; `build` gives what it returns.
  std::string
  region(llvm::ArrayRef<mlir::Type> elements,
         llvm::function_ref<llvm::SmallVector<HloText>(llvm::ArrayRef<HloText>)>
             build);

  HloText constant(mlir::DenseElementsAttr data);
  /// Data that is too large for an attribute.
  HloText constant(mlir::RankedTensorType type, llvm::StringRef bytes);
  /// Of the type, every element the number.
  HloText splat(double number, mlir::Type type);
  /// The bytes of a weight; nothing after a refusal.
  llvm::StringRef bytesOf(ts::WeightOp op);

  HloText convert(HloText x, mlir::Type element);
  HloText compare(llvm::StringRef direction, HloText x, HloText y);
  HloText select(HloText condition, HloText x, HloText y);
  HloText binary(llvm::StringRef op, HloText x, HloText y) {
    return make(op, {x, y}, x.type);
  }
  HloText reshape(HloText x, llvm::ArrayRef<int64_t> shape);
  HloText broadcast(HloText x, llvm::ArrayRef<int64_t> dims,
                    llvm::ArrayRef<int64_t> shape);

private:
  std::string fresh() { return "%" + std::to_string(next++); }
  void line(const std::string &text);

  const ModelBuffers &buffers;
  llvm::SmallVector<std::string> files;
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> opened;
  llvm::DenseMap<mlir::Value, HloText> values;
  std::vector<std::string> missing;
  std::string text;
  unsigned next = 0, depth = 2;
};

/// "[1, 2]".
std::string hloList(llvm::ArrayRef<int64_t> values);
/// "array<i64: 1, 2>".
std::string hloArray(llvm::ArrayRef<int64_t> values);
/// The sizes, all numbers.
llvm::SmallVector<int64_t> hloNumbers(mlir::ArrayAttr dims);

struct HloWriterRow {
  const char *name; ///< of the op, without dialect
  void (*write)(HloWriter &w, mlir::Operation *op);
};
/// By name; null: the op has no spelling.
const HloWriterRow *findHloWriterRow(llvm::StringRef name);
llvm::ArrayRef<HloWriterRow> hloElementWriters();
llvm::ArrayRef<HloWriterRow> hloShapeWriters();
llvm::ArrayRef<HloWriterRow> hloReductionWriters();

} // namespace knapper
