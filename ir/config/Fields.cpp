#include "ir/config/Fields.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace knapper::config {

DictionaryAttr attributeOf(const Parameters &parameters, MLIRContext *context) {
  Builder b(context);
  SmallVector<NamedAttribute> entries;
  for (const auto &[name, value] : parameters)
    entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  return b.getDictionaryAttr(entries);
}

std::string parametersOf(DictionaryAttr attribute, Parameters &parameters) {
  for (NamedAttribute entry : attribute) {
    auto value = dyn_cast<IntegerAttr>(entry.getValue());
    if (!value || !value.getType().isSignlessInteger(64))
      return "has '" + entry.getName().str() + "', which is no 64-bit integer";
    parameters[entry.getName().str()] = value.getInt();
  }
  return {};
}

} // namespace knapper::config
