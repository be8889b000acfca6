#include "ir/tensor/TensorType.h"
#include "ir/tensor/Dialect.h"
#include "runtime/base/DType.h"

using namespace mlir;

namespace knapper::ts {

SmallVector<Dim> dimsOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto encoding = dyn_cast_if_present<DimsAttr>(tensor.getEncoding()))
    return llvm::map_to_vector(encoding.getDims(),
                               [](DimAttr dim) { return Dim(dim); });
  return llvm::map_to_vector(tensor.getShape(), [&](int64_t size) {
    return Dim::constant(type.getContext(), size);
  });
}
SmallVector<Dim> dimsOf(Value value) { return dimsOf(value.getType()); }
Dim dimOf(Value value, unsigned index) { return dimsOf(value)[index]; }
int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}
Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

RankedTensorType tensorType(MLIRContext *context, ArrayRef<Dim> dims,
                            Type elementType) {
  SmallVector<int64_t> shape;
  SmallVector<DimAttr> attrs;
  bool symbolic = false;
  for (Dim dim : dims) {
    std::optional<int64_t> number = dim.asConstant();
    symbolic |= !number;
    shape.push_back(number.value_or(ShapedType::kDynamic));
    attrs.push_back(dim.attr());
  }
  return RankedTensorType::get(
      shape, elementType,
      symbolic ? Attribute(DimsAttr::get(context, attrs)) : Attribute());
}

RankedTensorType withElement(Type type, Type elementType) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), elementType,
                               tensor.getEncoding());
}

Dim elementCount(Type type) { return product(type.getContext(), dimsOf(type)); }

bool isStorage(Type elementType) {
  if (!elementType.isIntOrFloat())
    return false;
  unsigned bits = elementType.getIntOrFloatBitWidth();
  return isa<FloatType>(elementType) ? bits <= 8 : bits > 1 && bits < 8;
}

int64_t elementBytes(Type elementType) {
  if (isa<StringType>(elementType))
    return byteSize(DType::text);
  return std::max(1u, elementType.getIntOrFloatBitWidth() / 8);
}

Dim byteCount(Type type) {
  return elementCount(type) *
         elementBytes(cast<RankedTensorType>(type).getElementType());
}

ArrayAttr dimArray(MLIRContext *context, ArrayRef<Dim> dims) {
  return ArrayAttr::get(context, llvm::map_to_vector(dims, [](Dim dim) {
                          return Attribute(dim.attr());
                        }));
}

SmallVector<Dim> dimsOf(ArrayAttr dims) {
  return llvm::map_to_vector(dims.getAsRange<DimAttr>(),
                             [](DimAttr dim) { return Dim(dim); });
}

std::string shapeText(Type type) {
  std::string text;
  for (Dim dim : dimsOf(type))
    text += dim.str() + "x";
  llvm::raw_string_ostream(text)
      << cast<RankedTensorType>(type).getElementType();
  return text;
}

} // namespace knapper::ts
