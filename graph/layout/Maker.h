//===- Maker.h - Makes tensor ops at one place ----------------------------===//
#pragma once

#include "graph/simplify/Match.h"

namespace knapper {

/// A builder with a location, for rewrites of several ops. Each function
/// creates ops at the builder's insertion point and returns the last one's
/// result. Shapes must fit: nothing is checked here.
struct Maker {
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::Type i64 = b.getI64Type(), f32 = b.getF32Type();

  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...)->getResult(0);
  }
  mlir::RankedTensorType type(llvm::ArrayRef<ts::Dim> dims,
                              mlir::Type element) {
    return ts::tensorType(b.getContext(), dims, element);
  }
  /// A tensor of these dims of which every element is `number`.
  mlir::Value splat(llvm::ArrayRef<ts::Dim> dims, mlir::Type element,
                    double number) {
    return makeSplat(b, loc, type(dims, element), number);
  }
  /// The same in the type of `x`.
  mlir::Value like(mlir::Value x, double number) {
    return makeSplat(b, loc, llvm::cast<mlir::RankedTensorType>(x.getType()),
                     number);
  }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<ts::Dim> dims) {
    return makeReshape(b, loc, x, dims);
  }
  /// `x` has the rank of `dims`. Each of its dims is that of `dims` or 1.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<ts::Dim> dims) {
    llvm::SmallVector<ts::Dim> own, all = ts::dimsOf(x);
    llvm::SmallVector<int64_t> map;
    for (auto [i, dim] : llvm::enumerate(all))
      if (!dim.isConstant(1) || dims[i].isConstant(1)) {
        own.push_back(dim);
        map.push_back(static_cast<int64_t>(i));
      }
    return makeBroadcast(b, loc, reshape(x, own), dims, map);
  }
  /// An i64 tensor of these dims of which every element is the value of `size`.
  mlir::Value size(ts::Dim size, llvm::ArrayRef<ts::Dim> dims) {
    mlir::Value scalar = ts::SizeOp::create(b, loc, type({}, i64), size.attr());
    return makeBroadcast(b, loc, scalar, dims, {});
  }
  /// The value of `size` as a 0-d tensor of `element`.
  mlir::Value size(ts::Dim size, mlir::Type element) {
    mlir::Value scalar = ts::SizeOp::create(b, loc, type({}, i64), size.attr());
    return element == i64 ? scalar : convert(scalar, element);
  }
  /// An i64 tensor: each element is its index along `dim`.
  mlir::Value iota(llvm::ArrayRef<ts::Dim> dims, uint64_t dim) {
    return ts::IotaOp::create(b, loc, type(dims, i64), dim);
  }
  mlir::Value convert(mlir::Value x, mlir::Type element) {
    return ts::ConvertOp::create(b, loc, ts::withElement(x.getType(), element),
                                 x);
  }
  mlir::Value compare(ts::ComparePredicate predicate, mlir::Value x,
                      mlir::Value y) {
    return make<ts::CompareOp>(predicate, x, y);
  }
  mlir::Value reduce(ts::ReduceKind kind, mlir::Value x,
                     llvm::ArrayRef<int64_t> dims) {
    return make<ts::ReduceOp>(kind, x, dims, false);
  }
  /// `parts` concatenated along `dim`.
  mlir::Value joined(llvm::ArrayRef<mlir::Value> parts, int64_t dim) {
    return make<ts::ConcatOp>(mlir::ValueRange(parts), dim);
  }
  /// `x` with `more` elements of value `number` behind it along `dim`.
  mlir::Value padded(mlir::Value x, int64_t dim, ts::Dim more, double number) {
    llvm::SmallVector<ts::Dim> low(ts::rankOf(x), more.like(0)), high = low;
    high[dim] = more;
    return make<ts::PadOp>(x, splat({}, ts::elementTypeOf(x), number),
                           ts::dimArray(b.getContext(), low),
                           ts::dimArray(b.getContext(), high),
                           ts::PadMode::constant);
  }
};

} // namespace knapper
