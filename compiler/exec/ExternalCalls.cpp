// Operators of the host's as instructions.
#include "compiler/exec/ExecBuilder.h"
#include "compiler/exec/Origin.h"
#include "ir/tensor/reference/ExternalAttributes.h"

using namespace mlir;

namespace knapper {

static fb::AttributeKind kindOf(knapper_attribute_kind kind) {
  switch (kind) {
  case KNAPPER_ATTRIBUTE_INT:
    return fb::AttributeKind::integer;
  case KNAPPER_ATTRIBUTE_FLOAT:
    return fb::AttributeKind::real;
  case KNAPPER_ATTRIBUTE_STRING:
    return fb::AttributeKind::text;
  case KNAPPER_ATTRIBUTE_INTS:
    return fb::AttributeKind::integers;
  case KNAPPER_ATTRIBUTE_FLOATS:
    return fb::AttributeKind::reals;
  case KNAPPER_ATTRIBUTE_STRINGS:
    return fb::AttributeKind::texts;
  case KNAPPER_ATTRIBUTE_TENSOR:
    break;
  }
  return fb::AttributeKind::tensor;
}

static std::unique_ptr<fb::AttributeT>
attributeOf(const OperatorAttribute &from) {
  auto made = std::make_unique<fb::AttributeT>();
  made->name = from.name;
  made->kind = kindOf(from.kind);
  made->integers = from.integers;
  made->reals = from.reals;
  for (const std::string &text : from.texts) {
    auto bytes = std::make_unique<fb::TextT>();
    bytes->bytes.assign(text.begin(), text.end());
    made->texts.push_back(std::move(bytes));
  }
  made->dtype = static_cast<fb::DType>(from.dtype);
  auto *data = reinterpret_cast<const uint8_t *>(from.bytes.data());
  made->bytes.assign(data, data + from.bytes.size());
  return made;
}

/// "node 'name' (Operator)", as the importer names it.
static std::string nodeText(ts::ExternalOp op) {
  StringRef name = op.getOperatorName();
  if (auto outer = dyn_cast<NameLoc>(op.getLoc()))
    if (auto inner = dyn_cast<NameLoc>(outer.getChildLoc()))
      name = inner.getName().getValue();
  return ("node '" + originText(op.getLoc()) + "' (" + name + ")").str();
}

LogicalResult ExecBuilder::addExternal(ts::ExternalOp op) {
  fb::ExternalT external;
  external.domain = op.getDomain().str();
  external.name = op.getOperatorName().str();
  external.version = static_cast<int64_t>(op.getVersion());
  for (const OperatorAttribute &attribute :
       ts::operatorAttributes(op.getParameters()))
    external.attributes.push_back(attributeOf(attribute));
  auto tensorOf = [&](Type type) {
    auto tensor = std::make_unique<fb::ExternalTensorT>();
    tensor->dtype = dtypeOf(cast<RankedTensorType>(type).getElementType());
    for (ts::Dim dim : ts::dimsOf(type))
      tensor->dims.push_back(scalars.get(dim));
    return tensor;
  };
  auto next = op.getInputs().begin();
  for (bool present : op.getPresent()) {
    if (!present) {
      external.inputs.push_back(std::make_unique<fb::ExternalTensorT>());
      continue;
    }
    Value input = *next++;
    FailureOr<Place> place = placeOf(input);
    if (failed(place))
      return failure();
    external.inputs.push_back(tensorOf(input.getType()));
    external.inputs.back()->place =
        std::make_unique<fb::BufferRef>(refer(*place));
  }
  for (OpResult result : op->getResults()) {
    const Place &place = places[result] = placeOfResult(result);
    external.outputs.push_back(tensorOf(result.getType()));
    external.outputs.back()->place =
        std::make_unique<fb::BufferRef>(referWritten(place));
  }
  for (auto symbol : op.getSymbols().getAsRange<StringAttr>())
    external.symbols.push_back(scalars.symbolIndex(symbol));
  external.origin = nodeText(op);
  append(std::move(external));
  return success();
}

} // namespace knapper
