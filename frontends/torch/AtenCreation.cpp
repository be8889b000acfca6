// Tensors that are made of numbers.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

Value filled(AtenNode &n, Value value) {
  return n.broadcastTo(value, n.dims());
}

/// `argument` everywhere.
LogicalResult importFull(AtenNode &n) {
  return n.out(filled(n, n.operand("fill_value")));
}
LogicalResult importFill(AtenNode &n) {
  return n.out(filled(n, n.operand("value")));
}
/// Memory that nobody has written is zeros.
template <int number> LogicalResult constant(AtenNode &n) {
  if (!n.element())
    return failure();
  return n.out(filled(n, n.integerScalar(number, n.element())));
}
LogicalResult importScalarTensor(AtenNode &n) { return n.out(n.operand("s")); }

/// start + step * i.
LogicalResult importArange(AtenNode &n) {
  Type element = n.element();
  if (!element || n.dims().size() != 1)
    return failure();
  // As torch does: integers exactly, floats in the widest type.
  Type type = isa<FloatType>(element)
                  ? (element.isF64() ? element : Type(n.b.getF32Type()))
                  : Type(n.b.getI64Type());
  Value index = n.makeAs<ts::IotaOp>(n.type(n.dims(), type), uint64_t(0));
  Value y = index;
  if (n.has("step"))
    y = n.mul(y, n.operand("step", type));
  if (n.has("start"))
    y = n.add(y, n.operand("start", type));
  return n.out(y ? n.convert(y, element) : y);
}

LogicalResult importIota(AtenNode &n) {
  Type type = n.element();
  if (!type)
    return failure();
  Value y = n.makeAs<ts::IotaOp>(n.type(n.dims(), type), uint64_t(0));
  return n.out(n.add(n.mul(y, n.operand("step")), n.operand("start")));
}

LogicalResult importEye(AtenNode &n) {
  Type i64 = n.b.getI64Type();
  if (!n.element())
    return failure();
  RankedTensorType type = n.type(n.dims(), i64);
  Value same = n.compare(ts::ComparePredicate::eq,
                         n.makeAs<ts::IotaOp>(type, uint64_t(0)),
                         n.makeAs<ts::IotaOp>(type, uint64_t(1)));
  return n.out(n.convert(same, n.element()));
}

/// `steps` numbers from start to end, the second half counted from the end.
LogicalResult importLinspace(AtenNode &n) {
  Type element = n.element();
  if (!element || n.dims().size() != 1)
    return failure();
  Type type = element.isF32() || isa<Float16Type, BFloat16Type>(element)
                  ? Type(n.b.getF32Type())
                  : Type(n.b.getF64Type());
  Dim steps = n.dims()[0];
  Value start = n.operand("start", type), end = n.operand("end", type);
  if (steps.isConstant(1))
    return n.out(n.convert(filled(n, start), element));
  Value index = n.makeAs<ts::IotaOp>(n.type(n.dims(), type), uint64_t(0));
  Value step = n.div(n.sub(end, start), n.sizeScalar(steps - 1, type));
  Value low = n.add(start, n.mul(step, index));
  Value high =
      n.sub(end, n.mul(step, n.sub(n.sizeScalar(steps - 1, type), index)));
  Value half = n.sizeScalar(steps.floorDiv(n.dim(2)), type);
  Value y =
      n.select(n.compare(ts::ComparePredicate::lt, index, half), low, high);
  return n.out(y ? n.convert(y, element) : y);
}

constexpr AtenRow rows[] = {
    {"aten.arange.default", importArange},
    {"aten.arange.start", importArange},
    {"aten.arange.start_step", importArange},
    {"aten.empty.memory_format", constant<0>},
    {"aten.empty_like.default", constant<0>},
    {"aten.empty_permuted.default", constant<0>},
    {"aten.empty_strided.default", constant<0>},
    {"aten.eye.default", importEye},
    {"aten.eye.m", importEye},
    {"aten.fill.Scalar", importFill},
    {"aten.fill.Tensor", importFill},
    {"aten.full.default", importFull},
    {"aten.full_like.default", importFull},
    {"aten.linspace.Scalar_Tensor", importLinspace},
    {"aten.linspace.Tensor_Scalar", importLinspace},
    {"aten.linspace.Tensor_Tensor", importLinspace},
    {"aten.linspace.default", importLinspace},
    {"aten.new_empty.default", constant<0>},
    {"aten.new_empty_strided.default", constant<0>},
    {"aten.new_full.default", importFull},
    {"aten.new_ones.default", constant<1>},
    {"aten.new_zeros.default", constant<0>},
    {"aten.ones.default", constant<1>},
    {"aten.ones_like.default", constant<1>},
    {"aten.scalar_tensor.default", importScalarTensor},
    {"aten.zeros.default", constant<0>},
    {"aten.zeros_like.default", constant<0>},
    {"prims.iota.default", importIota},
};

} // namespace

ArrayRef<AtenRow> atenCreationRows() { return rows; }

} // namespace knapper
