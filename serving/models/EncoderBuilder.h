//===- EncoderBuilder.h - The program of a text encoder, in tensor IR -----===//
//
// Texts of one length: tokens [B, T] i32 to vectors [B, width] f32, pooled and
// normalised as asked. B and T are symbols.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "serving/models/CheckpointBuilder.h"
#include "serving/models/EncoderConfig.h"

namespace knapper::serving {

class EncoderBuilder : public CheckpointBuilder {
public:
  EncoderBuilder(GraphBuilder &shared, mlir::Location location,
                 const EncoderConfig &config, const Checkpoint &checkpoint)
      : CheckpointBuilder(shared, location, checkpoint, "bert."),
        config(config) {}

  /// The function @main of the module. UserError for weights that are missing,
  /// of another shape, or that nothing reads.
  Status build(mlir::ModuleOp module);

private:
  mlir::Value norm(mlir::Value x, const std::string &name);
  mlir::Value linear(mlir::Value x, const std::string &name, int64_t in,
                     int64_t out);
  mlir::Value embed(mlir::Value tokens);
  mlir::Value attention(mlir::Value x, const std::string &name);
  mlir::Value pool(mlir::Value x);

  const EncoderConfig &config;
  ts::Dim texts, length;
};

} // namespace knapper::serving
