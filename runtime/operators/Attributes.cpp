#include "runtime/operators/Attributes.h"

namespace knapper {

OperatorAttributes::OperatorAttributes(std::vector<OperatorAttribute> given)
    : attributes(std::move(given)) {
  strings.resize(attributes.size());
  tensors.resize(attributes.size());
  for (size_t i = 0; i < attributes.size(); ++i) {
    const OperatorAttribute &from = attributes[i];
    knapper_attribute view = {from.name.c_str(), from.kind, 0, {}, {}, {}, {}};
    auto count = [](const auto &list) {
      return static_cast<int32_t>(list.size());
    };
    switch (from.kind) {
    case KNAPPER_ATTRIBUTE_INT:
    case KNAPPER_ATTRIBUTE_INTS:
      view.ints = from.integers.data();
      view.count = count(from.integers);
      break;
    case KNAPPER_ATTRIBUTE_FLOAT:
    case KNAPPER_ATTRIBUTE_FLOATS:
      view.floats = from.reals.data();
      view.count = count(from.reals);
      break;
    case KNAPPER_ATTRIBUTE_STRING:
    case KNAPPER_ATTRIBUTE_STRINGS:
      for (const std::string &text : from.texts)
        strings[i].push_back({text.data(), text.size()});
      view.strings = strings[i].data();
      view.count = count(from.texts);
      break;
    case KNAPPER_ATTRIBUTE_TENSOR:
      tensors[i] = {const_cast<std::byte *>(from.bytes.data()),
                    from.bytes.size(), static_cast<knapper_dtype>(from.dtype),
                    count(from.integers), from.integers.data()};
      view.tensor = &tensors[i];
      view.count = 1;
      break;
    }
    views.push_back(view);
  }
}

} // namespace knapper
