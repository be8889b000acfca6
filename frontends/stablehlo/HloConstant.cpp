// Constants, and tensors of indices.
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNode.h"
#include "frontends/stablehlo/Vhlo.h"

using namespace mlir;

namespace knapper {
namespace {

/// As a buffer of its own. Booleans, which are packed, get a byte each.
Value inBuffer(HloNode &n, DenseElementsAttr data) {
  auto bytes = std::make_shared<std::string>();
  if (data.getElementType().isInteger(1)) {
    bytes->reserve(data.getNumElements());
    for (bool each : data.getValues<bool>())
      bytes->push_back(each ? 1 : 0);
  } else {
    bytes->assign(data.getRawData().begin(), data.getRawData().end());
  }
  size_t size = bytes->size();
  n.importer.buffers.push_back(std::move(bytes));
  auto weight = ts::WeightAttr::get(
      n.shared.context, static_cast<uint32_t>(n.importer.buffers.size()), 0,
      size, n.b.getStringAttr("constant"));
  return n.makeAs<ts::WeightOp>(data.getType(), weight);
}

LogicalResult importConstant(HloNode &n) {
  RankedTensorType type = n.resultType();
  Attribute value = n.op->getAttr("value");
  if (!type)
    return failure();
  if (auto data = dyn_cast_if_present<DenseElementsAttr>(value)) {
    if (data.getType() != type)
      return n.damaged("has data of another type");
    if (data.isSplat() && type.getRank() > 0)
      return n.out(n.broadcastTo(n.constant(data.reshape(RankedTensorType::get(
                                     {}, type.getElementType()))),
                                 ts::dimsOf(Type(type))));
    // Bytecode leaves them in the file, text has them here.
    return n.out(data.getRawData().size() > hloLargestConstant
                     ? inBuffer(n, data)
                     : n.constant(data));
  }
  return n.out(hloLargeConstant(n, type, type));
}

LogicalResult importIota(HloNode &n) {
  RankedTensorType type = n.resultType();
  if (!type)
    return failure();
  int64_t dim = n.dimension("iota_dimension", type.getRank());
  return n.out(n.makeAs<ts::IotaOp>(type, uint64_t(dim)));
}

constexpr HloRow rows[] = {
    {"constant", 0, importConstant},
    {"iota", 0, importIota},
};

} // namespace

llvm::ArrayRef<HloRow> hloConstantRows() { return rows; }

Value hloLargeConstant(HloNode &n, Type type, RankedTensorType as) {
  auto large = n.op->getAttrOfType<DictionaryAttr>("value");
  auto of = large ? large.getAs<TypeAttr>("type") : TypeAttr();
  auto offset = large ? large.getAs<IntegerAttr>("offset") : IntegerAttr();
  auto bytes = large ? large.getAs<IntegerAttr>("bytes") : IntegerAttr();
  if (!of || of.getValue() != type || !offset || !bytes) {
    (void)n.damaged("has no data of its type");
    return {};
  }
  if (as.getElementType().isInteger(1)) {
    const char *begin = n.importer.begin + offset.getInt();
    return inBuffer(n, DenseElementsAttr::getFromRawBuffer(
                           as, ArrayRef<char>(begin, bytes.getInt())));
  }
  auto weight = ts::WeightAttr::get(
      n.shared.context, 0, n.importer.offset + offset.getInt(), bytes.getInt(),
      n.b.getStringAttr("constant"));
  return n.makeAs<ts::WeightOp>(as, weight);
}

} // namespace knapper
