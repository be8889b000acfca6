//===- Classical.h - What the operators of ai.onnx.ml share ---------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// A table of the importer's own making: a constant, or data beside the model's
/// where it is large.
mlir::Value tableOf(Node &n, llvm::ArrayRef<int64_t> dims,
                    llvm::ArrayRef<double> values, mlir::Type element);
mlir::Value tableOf(Node &n, llvm::ArrayRef<int64_t> dims,
                    llvm::ArrayRef<int64_t> values, mlir::Type element);

/// The attribute `post_transform` applied to scores [rows, columns].
mlir::Value postTransform(Node &n, mlir::Value scores);
mlir::Value postTransform(Node &n, mlir::Value scores, llvm::StringRef name);

/// A matrix of features in f32, or f64 for f64; a vector is one row.
mlir::Value features(Node &n, mlir::Value x);

/// Labels (i64) of the largest score a row, from the attribute `name`; null and
/// a note where labels are strings.
mlir::Value labelsOf(Node &n, mlir::Value scores,
                     llvm::ArrayRef<int64_t> labels);

} // namespace knapper
