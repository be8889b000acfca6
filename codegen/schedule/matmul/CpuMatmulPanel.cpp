// Panels that a matmul puts into scratch first: those that are not
// packed and not consecutive, and scaled integers for large register tiles.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/matmul/CpuMatmulBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// The panel as floats, [K][panel] in scratch.
LogicalResult MatmulBuilder::expandPanel() {
  Location loc = e.location;
  auto floats = VectorType::get(panel, b.getF32Type());
  auto words = VectorType::get(panel, b.getI32Type());
  auto bytes = VectorType::get(panel, b.getI8Type());
  Value depth = e.size(matmul.rhs.contract), each = e.constant(matmul.group);
  auto shift = [&](Value word, int64_t left, int64_t right) {
    auto by = [&](int64_t bits) {
      return arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(words, b.getI32IntegerAttr(bits)));
    };
    if (left)
      word = arith::ShLIOp::create(b, loc, word, by(left)).getResult();
    return arith::ShRSIOp::create(b, loc, word, by(right)).getResult();
  };
  LogicalResult status = success();
  auto row = [&](Value k, Value factor, Value from) {
    Value at =
        e.add(bBase, e.mul(e.div(k, e.constant(step)), e.constant(panel)));
    Value loaded = tile::LoadOp::create(b, loc, bytes, bBuffer, at, Value());
    Value word = arith::ExtSIOp::create(b, loc, words, loaded);
    for (int64_t part = 0; part < step; ++part) {
      Value integer = word;
      if (matmul.nibbles)
        integer = part ? shift(word, 0, 4) : shift(word, 28, 28);
      Value value = arith::SIToFPOp::create(b, loc, floats, integer);
      if (from)
        value = arith::SubFOp::create(b, loc, value, from);
      value = arith::MulFOp::create(b, loc, value, factor);
      Value to = e.mul(e.add(k, e.constant(part)), e.constant(panel));
      tile::StoreOp::create(b, loc, value, expanded, to);
    }
  };
  forEach(
      e, e.constant(0),
      e.size(
          matmul.rhs.contract.ceilDiv(matmul.rhs.contract.like(matmul.group))),
      {},
      [&](Value number, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value at = e.add(scaleBase, e.mul(number, e.constant(panel)));
        Value factor = tile::LoadOp::create(b, loc, floats, scale, at, Value());
        Value from =
            zero
                ? Value(tile::LoadOp::create(b, loc, floats, zero, at, Value()))
                : Value();
        Value first = e.mul(number, each);
        forEach(
            e, first, e.min(e.add(first, each), depth), {},
            [&](Value k, ValueRange) -> FailureOr<SmallVector<Value>> {
              row(k, factor, from);
              return SmallVector<Value>();
            },
            status, step);
        return SmallVector<Value>();
      },
      status);
  return status;
}

/// The program's rows of a left side whose columns are consecutive,
/// [K][rowPitch] in scratch.
LogicalResult MatmulBuilder::copyRows(Value rows) {
  Location loc = e.location;
  constexpr int64_t width = 16;
  int64_t pitch = rowPitch(blockRows),
          depth = *matmul.lhs.contract.asConstant();
  Value source = a, from = e.add(aBase, firstRow), stride = ka;
  Type element = cast<tile::BufferType>(source.getType()).getElementType();
  auto type = VectorType::get(width, element);
  a = tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                              e.constant(accumulatorBytes(inTiles || inParts) +
                                         panelBytes(depth, panel)));
  // Row `firstRow` is the first of the copy.
  aBase = e.sub(e.constant(0), firstRow);
  ka = e.constant(pitch);
  return forEach(e, e.constant(0), e.constant(depth), [&](Value k) {
    Value at = e.add(from, e.mul(k, stride)), to = e.mul(k, ka);
    return forEach(
        e, e.constant(0), rows,
        [&](Value row) -> LogicalResult {
          Value values = tile::LoadOp::create(b, loc, type, source,
                                              e.add(at, row), e.sub(rows, row));
          tile::StoreOp::create(b, loc, values, a, e.add(to, row));
          return success();
        },
        width);
  });
}

/// The same of columns that lie consecutive along K: square blocks of it are
/// transposed in registers. Rows past the last are written as well.
LogicalResult MatmulBuilder::transposePanel(Value source, Value base) {
  int64_t size = target.lanes(DType::f32);
  Dim contract = matmul.rhs.contract;
  Value depth = e.size(contract), stride = e.size(matmul.rhs.freeStride);
  int64_t known = contract.knownDivisor();
  bool even = known && known % size == 0;
  auto block = [&](Value column, Value k) {
    Value at = e.add(base, e.add(e.mul(column, stride), k));
    Value columns =
        validColumns ? e.sub(validColumns, column) : e.constant(size);
    Value steps = even ? e.constant(size) : e.sub(depth, k);
    transposeBlock(e, size, source, at, stride, columns, steps, bBuffer,
                   [&](int64_t r) {
                     Value row = e.add(e.mul(k, e.constant(panel)), column);
                     return e.add(row, e.constant(r * panel));
                   });
    return success();
  };
  return forEach(
      e, e.constant(0), e.constant(panel),
      [&](Value column) {
        return forEach(
            e, e.constant(0), depth, [&](Value k) { return block(column, k); },
            size);
      },
      size);
}

/// Gathers the panel that bBase and ldb point to into scratch, [K][panel] or
/// [ceil(K / 2)][panel][2], zero past the last column and row.
LogicalResult MatmulBuilder::gatherPanel() {
  Location loc = e.location;
  Value source = bBuffer, base = bBase, stride = ldb;
  Value depth = e.size(matmul.rhs.contract);
  Value columnStride = e.size(matmul.rhs.freeStride);
  bool consecutive = matmul.rhs.freeStride.isConstant(1);
  Type element = cast<tile::BufferType>(source.getType()).getElementType();
  auto type = VectorType::get(panel, element);
  bool transposes = matmul.rhs.contractStride.isConstant(1) && step == 1;
  bBuffer =
      tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                              e.constant(accumulatorBytes(inTiles || inParts)));
  bBase = e.constant(0);
  ldb = e.constant(step * panel);
  if (!consecutive && transposes)
    return transposePanel(source, base);
  auto row = [&](Value k, Value valid) -> Value {
    Value at = e.add(base, e.mul(k, stride));
    if (consecutive)
      return tile::LoadOp::create(b, loc, type, source, at, valid);
    auto strided =
        tile::LoadStridedOp::create(b, loc, type, source, at, columnStride);
    if (valid)
      strided.getValidMutable().assign(valid);
    return strided;
  };
  LogicalResult status = success();
  forEach(
      e, e.constant(0), depth, {},
      [&](Value k, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value values = row(k, validColumns);
        if (step == 2) {
          // Of the row past the last none is valid.
          Value next = e.add(k, e.constant(1));
          Value left = e.mul(e.sub(depth, next), e.constant(panel));
          Value odd = row(next, e.min(left, validColumns ? validColumns
                                                         : e.constant(panel)));
          values = vector::InterleaveOp::create(b, loc, values, odd);
        }
        tile::StoreOp::create(b, loc, values, bBuffer,
                              e.mul(k, e.constant(panel)));
        return SmallVector<Value>();
      },
      status, step);
  return status;
}

} // namespace knapper
