//===- HloNode.h - What a row of the StableHLO front end sees of its op ---===//
//
// A row is an op's name, without dialect and version, and a function:
//
//   static LogicalResult importTan(HloNode &n) {
//     return n.out(n.make<ts::TanOp>(n[0]));
//   }
//   {"tangent", 1, importTan},
//
// The op comes from a file and is not verified: attributes are read with the
// functions here, which check kind, number and range. Results are compared with
// the types that the file gives them after the row has run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

class HloImporter;
struct HloFrame;

/// One StableHLO op while its row imports it. One thread at a time.
class HloNode : public NodeBuilder {
public:
  HloNode(HloImporter &importer, HloFrame &frame, mlir::Operation *op,
          std::string kind, mlir::Location loc);

  //===--------------------------------------------------------------------===//
  // Operands
  //===--------------------------------------------------------------------===//
  size_t size() const { return operands.size(); }
  /// Operand `index`; null beyond the last.
  mlir::Value operator[](size_t index) const {
    return index < operands.size() ? operands[index] : mlir::Value();
  }
  llvm::SmallVector<mlir::Value> operands;
  /// The dims of an operand, all numbers.
  llvm::SmallVector<int64_t> shape(mlir::Value value) const;

  //===--------------------------------------------------------------------===//
  // Attributes, by name. A wrong kind, number or range is a user error of the
  // op.
  //===--------------------------------------------------------------------===//
  bool has(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name);
  bool flag(llvm::StringRef name);
  llvm::StringRef text(llvm::StringRef name);
  /// A list of integers; an empty one where the attribute is absent.
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  /// The same with `count` entries.
  llvm::SmallVector<int64_t> integers(llvm::StringRef name, size_t count);
  /// A list of booleans, `count` of them; all false where it is absent.
  llvm::SmallVector<bool> flags(llvm::StringRef name, size_t count);
  /// A list of distinct dims of a tensor of this rank.
  llvm::SmallVector<int64_t> dims(llvm::StringRef name, int64_t rank);
  /// One dim of a tensor of this rank.
  int64_t dimension(llvm::StringRef name, int64_t rank);
  /// Pairs of pads before and after, `count` of them.
  llvm::SmallVector<std::pair<int64_t, int64_t>> padding(llvm::StringRef name,
                                                         size_t count);

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//
  /// The type that the file gives a result, at the frame's `lift`. Null if the
  /// compiler has no such element type.
  mlir::RankedTensorType resultType(size_t index = 0);
  mlir::Type element(size_t index = 0);
  llvm::SmallVector<ts::Dim> resultDims(size_t index = 0);
  mlir::LogicalResult out(mlir::Value value, size_t index = 0);
  llvm::SmallVector<mlir::Value> results;

  //===--------------------------------------------------------------------===//
  // Helpers of several families
  //===--------------------------------------------------------------------===//
  /// Fails with a user error: the file is damaged.
  mlir::LogicalResult damaged(const llvm::Twine &what);
  /// counts[d] elements of each dim d: starts[d], starts[d] + steps[d], ...
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> starts,
                    llvm::ArrayRef<int64_t> counts,
                    llvm::ArrayRef<int64_t> steps);
  mlir::Value reshapeTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, int64_t dim,
                   mlir::Type element);
  mlir::Value reverse(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// Pads with `value` before, after and between the elements of each dim. A
  /// negative number of elements cuts.
  mlir::Value pad(mlir::Value x, mlir::Value value, llvm::ArrayRef<int64_t> low,
                  llvm::ArrayRef<int64_t> high,
                  llvm::ArrayRef<int64_t> interior);
  /// A slice of `sizes` elements whose starts are known in a run only. They are
  /// clamped so that the slice is inside `x`.
  mlir::Value slicedAt(mlir::Value x, llvm::ArrayRef<mlir::Value> starts,
                       llvm::ArrayRef<int64_t> sizes);

  /// The start of a slice of `count` of `size` elements, clamped to the valid
  /// range, if it is known while importing. Nothing if data decides it.
  std::optional<ts::Dim> knownStart(mlir::Value start, int64_t size,
                                    int64_t count);
  /// Integers of any type as i64.
  mlir::Value asIndex(mlir::Value value);

  /// Lets a row import `other`, this op on other operands; what fails there
  /// fails here. The results are `other`'s.
  mlir::LogicalResult importAs(const struct HloRow &row, HloNode &other);

  std::string where() const override;

  HloImporter &importer;
  HloFrame &frame;
  mlir::Operation *op;
  std::string kind; ///< "dot_general"
  /// Operands and results are one plane of complex ones (HloComplex.h).
  bool onPlanes = false;
  /// Operands and results are of wider types than the program's (HloNarrow.h).
  bool onWide = false;
  /// What results of quantised numbers have for elements; null: what they are
  /// stored in (HloQuantised.h).
  mlir::Type computed;
};

/// How one op is imported.
struct HloRow {
  const char *name;
  unsigned operands; ///< least number of operands
  mlir::LogicalResult (*import)(HloNode &);
};

/// How a custom_call of one target is imported.
struct HloTarget {
  const char *name;
  unsigned operands, results;
  mlir::LogicalResult (*import)(HloNode &);
  /// Its operands are real, its results need not be.
  bool givesComplex = false;
};
/// The row of a custom_call's target, or null.
const HloTarget *findHloTarget(llvm::StringRef name);
llvm::ArrayRef<HloTarget> hloMatrixTargets();
llvm::ArrayRef<HloTarget> hloSortTargets();

// The rows of each family; a family is a file.
llvm::ArrayRef<HloRow> hloUnaryRows();
llvm::ArrayRef<HloRow> hloBinaryRows();
llvm::ArrayRef<HloRow> hloConstantRows();
llvm::ArrayRef<HloRow> hloShapeRows();
llvm::ArrayRef<HloRow> hloDynamicRows();
llvm::ArrayRef<HloRow> hloMatmulRows();
llvm::ArrayRef<HloRow> hloReductionRows();
llvm::ArrayRef<HloRow> hloWindowRows();
llvm::ArrayRef<HloRow> hloGatherRows();
llvm::ArrayRef<HloRow> hloScatterRows();
llvm::ArrayRef<HloRow> hloSortRows();
llvm::ArrayRef<HloRow> hloControlRows();
llvm::ArrayRef<HloRow> hloLoopRows();
llvm::ArrayRef<HloRow> hloMatrixRows();
llvm::ArrayRef<HloRow> hloNormRows();
llvm::ArrayRef<HloRow> hloOlderRows();
llvm::ArrayRef<HloRow> hloRandomRows();
llvm::ArrayRef<HloRow> hloCollectiveRows();

/// A large constant whose data stays in the file: `type` there, `as` in the
/// program. Null after an error.
mlir::Value hloLargeConstant(HloNode &n, mlir::Type type,
                             mlir::RankedTensorType as);

/// The row of an op of real numbers, or null.
const HloRow *findHloRow(llvm::StringRef name);

/// "dot_general" of "vhlo.dot_general_v2".
llvm::StringRef hloName(mlir::Operation *op);

/// Whether there is a row, of real or of complex numbers.
bool hasHloRow(llvm::StringRef name);

} // namespace knapper
