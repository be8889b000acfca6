//===- Maker.h - Makes tensor ops at one place ----------------------------===//
#pragma once

#include "graph/simplify/Match.h"

namespace knapper {

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
  mlir::Value splat(llvm::ArrayRef<ts::Dim> dims, mlir::Type element,
                    double number) {
    return makeSplat(b, loc, type(dims, element), number);
  }
  mlir::Value like(mlir::Value x, double number) {
    return makeSplat(b, loc, llvm::cast<mlir::RankedTensorType>(x.getType()),
                     number);
  }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<ts::Dim> dims) {
    return makeReshape(b, loc, x, dims);
  }
  /// `x` has dims of `dims` or ones.
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
  mlir::Value size(ts::Dim size, llvm::ArrayRef<ts::Dim> dims) {
    mlir::Value scalar = ts::SizeOp::create(b, loc, type({}, i64), size.attr());
    return makeBroadcast(b, loc, scalar, dims, {});
  }
  /// A scalar.
  mlir::Value size(ts::Dim size, mlir::Type element) {
    mlir::Value scalar = ts::SizeOp::create(b, loc, type({}, i64), size.attr());
    return element == i64 ? scalar : convert(scalar, element);
  }
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
  mlir::Value joined(llvm::ArrayRef<mlir::Value> parts, int64_t dim) {
    return make<ts::ConcatOp>(mlir::ValueRange(parts), dim);
  }
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
