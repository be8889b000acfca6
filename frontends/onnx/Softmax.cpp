// The softmax family.
#include "frontends/onnx/Node.h"

using namespace mlir;

namespace knapper {
namespace {

template <bool log> LogicalResult importSoftmax(Node &n) {
  int64_t rank = ts::rankOf(n[0]);
  if (!rank) // one element: e^0 / e^0
    return n.out(n.splatLike(log ? 0 : 1, n[0]));
  int64_t axis = n.axis("axis", -1, rank);
  return n.out(n.make<ts::SoftmaxOp>(n[0], uint64_t(axis), bool(log)));
}

/// 1 at the first largest element along the axis, else 0.
LogicalResult importHardmax(Node &n) {
  int64_t rank = ts::rankOf(n[0]);
  int64_t axis = n.axis("axis", -1, rank);
  SmallVector<ts::Dim> dims = ts::dimsOf(n[0]);
  if (dims.empty() || n.failed())
    return n.out(n.splatLike(1, n[0]));
  Value best = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, n[0],
                                       uint64_t(axis), bool(false));
  SmallVector<ts::Dim> kept = dims;
  kept[axis] = n.dim(1);
  Value index =
      n.makeAs<ts::IotaOp>(n.type(dims, n.b.getI64Type()), uint64_t(axis));
  Value hit = n.compare(ts::ComparePredicate::eq, index, n.reshape(best, kept));
  return n.out(n.convert(hit, ts::elementTypeOf(n[0])));
}

/// Until opset 12: one softmax over all dims from `axis` on.
template <bool log> LogicalResult importFlatSoftmax(Node &n) {
  SmallVector<ts::Dim> dims = ts::dimsOf(n[0]);
  ArrayRef<ts::Dim> all = dims;
  int64_t axis = n.axis("axis", 1, static_cast<int64_t>(dims.size()));
  if (n.failed())
    return failure();
  MLIRContext *context = n.importer.context;
  Value flat = n.reshape(n[0], {ts::product(context, all.take_front(axis)),
                                ts::product(context, all.drop_front(axis))});
  return n.out(n.reshape(n.make<ts::SoftmaxOp>(flat, uint64_t(1), log), dims));
}

constexpr OpRow rows[] = {
    {"", "Hardmax", 13, 1, 1, importHardmax},
    {"", "LogSoftmax", 1, 1, 1, importFlatSoftmax<true>, 12},
    {"", "LogSoftmax", 13, 1, 1, importSoftmax<true>},
    {"", "Softmax", 1, 1, 1, importFlatSoftmax<false>, 12},
    {"", "Softmax", 13, 1, 1, importSoftmax<false>},
};

} // namespace

ArrayRef<OpRow> softmaxRows() { return rows; }

} // namespace knapper
