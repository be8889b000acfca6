#include "ir/tensor/reference/ExternalAttributes.h"
#include "ir/tensor/reference/HostTensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper::ts {

std::vector<OperatorAttribute> operatorAttributes(DictionaryAttr from) {
  std::vector<OperatorAttribute> list;
  for (NamedAttribute named : from) {
    OperatorAttribute &made = list.emplace_back();
    made.name = named.getName().str();
    llvm::TypeSwitch<Attribute>(named.getValue())
        .Case([&](IntegerAttr value) {
          made.kind = KNAPPER_ATTRIBUTE_INT;
          made.integers = {value.getInt()};
        })
        .Case([&](FloatAttr value) {
          made.kind = KNAPPER_ATTRIBUTE_FLOAT;
          made.reals = {static_cast<float>(value.getValueAsDouble())};
        })
        .Case([&](StringAttr value) {
          made.kind = KNAPPER_ATTRIBUTE_STRING;
          made.texts = {value.str()};
        })
        .Case([&](DenseI64ArrayAttr values) {
          made.kind = KNAPPER_ATTRIBUTE_INTS;
          made.integers = values.asArrayRef().vec();
        })
        .Case([&](DenseF32ArrayAttr values) {
          made.kind = KNAPPER_ATTRIBUTE_FLOATS;
          made.reals = values.asArrayRef().vec();
        })
        .Case([&](ArrayAttr values) {
          made.kind = KNAPPER_ATTRIBUTE_STRINGS;
          for (auto value : values.getAsRange<StringAttr>())
            made.texts.push_back(value.str());
        })
        .Case([&](DenseElementsAttr values) {
          made.kind = KNAPPER_ATTRIBUTE_TENSOR;
          Expected<HostTensor> tensor = HostTensor::fromAttribute(values);
          if (!tensor) // the verifier lets none through
            return;
          made.dtype = tensor->dtype();
          made.integers.assign(tensor->dims().begin(), tensor->dims().end());
          auto *data = reinterpret_cast<const std::byte *>(tensor->data());
          made.bytes.assign(data, data + tensor->bytes());
        });
  }
  return list;
}

} // namespace knapper::ts
