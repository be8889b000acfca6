#include "frontends/common/TruePlaces.h"
#include "ir/tensor/DataSelection.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

Value truePlaces(NodeBuilder &n, Value mask,
                 llvm::function_ref<Dim(Value)> bind) {
  if (!mask)
    return {};
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> rows = ts::dimsOf(mask);
  rows.pop_back();
  Value counts = n.reduce(ts::ReduceKind::add, n.convert(mask, i64),
                          {static_cast<int64_t>(rows.size())}, /*keep=*/false);
  if (!counts)
    return {};
  if (rows.empty())
    return n.make<ts::TruePlacesOp>(mask, n.integerScalar(0, i64),
                                    bind(counts).attr());
  Value line = n.reshape(counts, {ts::elementCount(counts.getType())});
  Dim count = bind(n.reduce(ts::ReduceKind::add, line, {0}, /*keep=*/false));
  Value before = n.make<ts::ScanOp>(ts::ReduceKind::add, line, uint64_t(0),
                                    /*exclusive=*/bool(true),
                                    /*reverse=*/bool(false));
  return n.make<ts::TruePlacesOp>(mask, n.reshape(before, rows), count.attr());
}

} // namespace knapper
