//===- ExternalAttributes.h - Attributes of ts.external as the host's -----===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "runtime/operators/Attributes.h"
#include <vector>

namespace knapper::ts {

/// The parameters of a ts.external in the form that operators are given.
std::vector<OperatorAttribute> operatorAttributes(mlir::DictionaryAttr from);

} // namespace knapper::ts
