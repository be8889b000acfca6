//===- RuntimeSizes.h - Shapes, axes and pads that arrive as tensors ------===//
//
// ONNX passes shapes, axes, pads, repeats and counts as tensors. Where their
// values are known while the model is imported (numbers, or sizes of the
// inputs) the rows use them as dims. What is here serves the other case: the
// values are computed when the program runs. Each becomes a fresh symbol
// (`NodeBuilder::bindSize`), which may turn out to be 1 and broadcasts then.
// What has to hold of them is checked once they are bound: the run fails with a
// user error.
//
// All values here are i64 tensors of the graph: a list is 1-D and as long as
// the rank it describes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// Sizes, none negative: known ones, or a symbol each. `list` is 0-D or 1-D.
/// Nothing, and `unsupported`, where its length is not known.
std::optional<llvm::SmallVector<ts::Dim>>
sizesOrSymbols(Node &n, mlir::Value list, llvm::StringRef what);

/// The same of a list of `count` elements; the run fails where one is negative.
/// The symbols are called `hint`.
llvm::SmallVector<ts::Dim> symbolsOf(Node &n, mlir::Value list, int64_t count,
                                     llvm::StringRef hint);

/// The value with `axes` as multiples of `of` where that is not known before:
/// the run fails where they are none. Known sizes stay as they are.
mlir::Value castToMultiples(Node &n, mlir::Value value,
                            llvm::ArrayRef<int64_t> axes, ts::Dim of);

/// A list's length where it is a number, 1 for a 0-D tensor.
std::optional<int64_t> lengthOf(mlir::Value list);

/// The length of a list of sizes whose elements are not all known, where the
/// length is known and no more than a tensor has dims.
std::optional<int64_t> runtimeLength(Node &n, mlir::Value list);

/// The list as 1-D i64; null where `list` is null.
mlir::Value asList(Node &n, mlir::Value list);

/// Element `at` of a list, 0-D.
mlir::Value elementOf(Node &n, mlir::Value list, int64_t at);

/// 0, 1, … `count` - 1.
mlir::Value indices(Node &n, int64_t count);

/// Axes of a tensor of `rank` dims that are known when the program runs.
class RuntimeAxes {
public:
  /// Nothing, and `unsupported`, where it is not known how many there are. The
  /// run fails where one is outside of the rank or named twice.
  static std::optional<RuntimeAxes> of(Node &n, mlir::Value axes, int64_t rank);

  int64_t count() const { return number; }
  int64_t rank() const { return all; }
  /// 1-D i1, an element a dim: whether it is among the axes.
  mlir::Value isListed() const { return listed; }
  /// A list whose element d is that of `values`, which has one an axis, for
  /// the axis d, and that of `others` for the other dims.
  mlir::Value spread(Node &n, mlir::Value values, mlir::Value others) const;
  /// The elements of `list` that are not among the axes, in their order.
  mlir::Value without(Node &n, mlir::Value list) const;
  /// Of a single axis: the product of the dims in front of it, its dim, and the
  /// product of those behind it.
  llvm::SmallVector<ts::Dim> foldAround(Node &n,
                                        llvm::ArrayRef<ts::Dim> dims) const;

private:
  RuntimeAxes() = default;
  int64_t number = 0, all = 0;
  mlir::Value matches; ///< [number, rank] i1
  mlir::Value listed;  ///< [rank] i1
};

/// Whether the elements of the list are dims that are known while the model is
/// imported, or the list is absent.
bool isKnown(Node &n, mlir::Value list);
/// The same, and all of them numbers: what an axis or a step has to be.
bool isNumbers(Node &n, mlir::Value list);

/// The run fails with `text` where the comparison does not hold, the import
/// where that is known.
void require(Node &n, ts::Dim left, ts::ComparePredicate predicate,
             ts::Dim right, const llvm::Twine &text);
/// The same of a 0-D i1 tensor.
void require(Node &n, mlir::Value condition, const llvm::Twine &text);

} // namespace knapper
