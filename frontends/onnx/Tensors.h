//===- Tensors.h - ONNX element types and tensor data ---------------------===//
#pragma once

#include "frontends/onnx/Source.h"
#include "ir/tensor/Dialect.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace knapper {

/// The IR's element type of an ONNX one that holds numbers; null when the IR
/// has none.
mlir::Type onnxElementType(mlir::MLIRContext *context, int32_t type);
/// The same, also of strings.
mlir::Type onnxAnyElementType(mlir::MLIRContext *context, int32_t type);
bool isString(mlir::Value value);
/// "FLOAT", or the number of an unknown type.
std::string onnxTypeName(int32_t type);

/// A tensor's contents: one of the two attributes.
struct OnnxTensor {
  mlir::RankedTensorType type;
  mlir::DenseElementsAttr constant; ///< up to `maxInlineBytes`
  ts::WeightAttr weight;            ///< larger
};

/// Reads the data of `tensor`, whose element type the IR has.
Expected<OnnxTensor> readTensor(mlir::MLIRContext *context, OnnxFile &file,
                                const onnx::TensorProto &tensor);

} // namespace knapper
