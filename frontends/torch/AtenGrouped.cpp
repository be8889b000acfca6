// Matmuls of groups of rows with a matrix each: the experts of a mixture.
#include "frontends/torch/AtenNode.h"
#include "ir/tensor/GroupedMatmul.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// The groups that running ends give: where each begins and how long it is, as
/// sizes that the run binds. Empty where that failed.
SmallVector<std::pair<Dim, Dim>> groupsOf(AtenNode &n, Value ends) {
  SmallVector<std::pair<Dim, Dim>> groups;
  std::optional<int64_t> count;
  if (ends && ts::rankOf(ends) == 1)
    count = ts::dimOf(ends, 0).asConstant();
  if (!count || *count < 1 || *count > 1024) {
    (void)n.unsupported("groups without a count that is known, of 1 to 1024");
    return {};
  }
  Type i64 = n.b.getI64Type();
  ends = n.convert(ends, i64);
  Dim start = n.dim(0);
  Value before;
  for (int64_t i = 0; i < *count; ++i) {
    Value end = n.reshape(n.sliceDim(ends, 0, n.dim(i), n.dim(1)), {});
    Value length = before ? n.sub(end, before) : end;
    if (n.failed() || !length)
      return {};
    Dim size = n.bindSize(length, "group");
    if (n.failed())
      return {};
    groups.emplace_back(start, size);
    start = start + size;
    before = end;
  }
  return groups;
}

Value dot(AtenNode &n, Value x, Value y, int64_t xDim, int64_t yDim) {
  if (!x || !y)
    return {};
  return n.make<ts::DotOp>(x, y, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                           ArrayRef<int64_t>{xDim}, ArrayRef<int64_t>{yDim},
                           TypeAttr());
}

/// Rows of x, group by group, times the group's matrix; `contracted` is its dim
/// that the rows run over.
Value rowsTimesMatrices(AtenNode &n, Value x, Value matrices, Value ends,
                        int64_t contracted) {
  if (!x || !matrices || !ends)
    return {};
  return n.make<ts::GroupedMatmulOp>(x, matrices,
                                     n.convert(ends, n.b.getI32Type()),
                                     /*transposed=*/contracted == 1);
}

/// A matrix a group: columns of x (its dim `along` runs over all groups) times
/// rows of y.
Value matricesOfGroups(AtenNode &n, Value x, int64_t along, Value y,
                       ArrayRef<std::pair<Dim, Dim>> groups) {
  SmallVector<Value> parts;
  for (auto [start, size] : groups) {
    Value part = dot(n, n.sliceDim(x, along, start, size),
                     n.sliceDim(y, 0, start, size), along, 0);
    if (!part)
      return {};
    SmallVector<Dim> dims = ts::dimsOf(part);
    dims.insert(dims.begin(), n.dim(1));
    parts.push_back(n.reshape(part, dims));
  }
  return n.make<ts::ConcatOp>(ValueRange(parts), uint64_t(0));
}

LogicalResult importGroupedMatmul(AtenNode &n) {
  if (n.has("bias"))
    return n.unsupported("a bias");
  Value x = n.operand("self"), y = n.operand("mat2");
  if (!x || !y)
    return failure();
  int64_t left = ts::rankOf(x), right = ts::rankOf(y);
  if (left == 3 && right == 3)
    return n.out(n.make<ts::DotOp>(x, y, ArrayRef<int64_t>{0},
                                   ArrayRef<int64_t>{0}, ArrayRef<int64_t>{2},
                                   ArrayRef<int64_t>{1}, TypeAttr()));
  Value ends = n.tensor("offs");
  if (left == 2 && right == 3)
    return n.out(rowsTimesMatrices(n, x, y, ends, 0));
  if (left == 2 && right == 2) {
    SmallVector<std::pair<Dim, Dim>> groups = groupsOf(n, ends);
    if (groups.empty())
      return failure();
    return n.out(matricesOfGroups(n, x, 1, y, groups));
  }
  // Columns of y, group by group: the same with both sides transposed.
  Value transposed = rowsTimesMatrices(n, n.transpose(y, {1, 0}), x, ends, 1);
  return n.out(n.transpose(transposed, {1, 0}));
}

LogicalResult importExpertMatmul(AtenNode &n) {
  Value x = n.operand("input"), weight = n.operand("weight");
  return n.out(rowsTimesMatrices(n, x, weight, n.tensor("offs"), 0));
}

LogicalResult importExpertMatmulBackward(AtenNode &n) {
  Type type = n.element(0) ? n.element(0) : n.element(1);
  Value x = n.operand("input", type), weight = n.operand("weight", type),
        g = n.operand("grad_output", type);
  Value ends = n.tensor("offs");
  if (n.wants(0) && failed(n.out(rowsTimesMatrices(n, g, weight, ends, 1), 0)))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  SmallVector<std::pair<Dim, Dim>> groups = groupsOf(n, ends);
  if (groups.empty())
    return failure();
  return n.out(matricesOfGroups(n, x, 0, g, groups), 1);
}

constexpr AtenRow rows[] = {
    {"aten._grouped_mm.default", importGroupedMatmul},
    {"transformers.grouped_mm_fallback.default", importExpertMatmul},
    {"transformers.grouped_mm_fallback_backward.default",
     importExpertMatmulBackward},
};

} // namespace

ArrayRef<AtenRow> atenGroupedRows() { return rows; }

} // namespace knapper
