// Tensor IR over the weights of a checkpoint: what the programs of decoders and
// encoders share.
#pragma once

#include "frontends/common/NodeBuilder.h"
#include "serving/models/Checkpoint.h"
#include "serving/models/DecoderForm.h"

namespace knapper::serving {

class CheckpointBuilder : public NodeBuilder {
public:
  CheckpointBuilder(GraphBuilder &shared, mlir::Location location,
                    const Checkpoint &checkpoint, std::string base)
      : NodeBuilder(shared, location), checkpoint(checkpoint),
        base(std::move(base)), f32(shared.b.getF32Type()) {}
  std::string where() const override { return at; }

  /// Of the weights that are inputs, in their order.
  std::vector<WeightInput> takeInputs() { return std::move(inputs); }

protected:
  /// A tensor of the checkpoint in f32, of this shape. An error where it is
  /// missing or has another shape.
  mlir::Value weight(const std::string &given, llvm::ArrayRef<int64_t> shape);
  /// Several, concatenated along their first dim.
  mlir::Value weights(llvm::ArrayRef<std::string> given,
                      llvm::ArrayRef<llvm::SmallVector<int64_t>> shapes);
  /// x [..., in] times matrices [out, in], concatenated along out. They are
  /// inputs: integers of `bits` bits, and their scales. `transposed`: the one
  /// matrix is [in, out].
  mlir::Value packedMatmul(mlir::Value x, llvm::ArrayRef<std::string> given,
                           int64_t in, llvm::ArrayRef<int64_t> outs,
                           int64_t bits, bool transposed);
  /// Null and an error where it is missing or has another shape.
  const Checkpoint::Tensor *checked(const std::string &name,
                                    llvm::ArrayRef<int64_t> shape);
  /// The name in the checkpoint: with or without the names' base.
  std::string stored(const std::string &name) const;
  /// x [..., in] times the matrix [out, in], or [in, out] where `transposed`.
  mlir::Value matmul(mlir::Value x, mlir::Value matrix, bool transposed);
  /// UserError for a tensor that nothing read.
  Status checkAllRead(const std::string &family) const;
  /// The files of the module's weights.
  void setFiles(mlir::ModuleOp module) const;

  const Checkpoint &checkpoint;
  const std::string base;
  mlir::Type f32;
  std::string at = "the model";
  llvm::StringSet<> read;
  /// Where weights are inputs: their type, and those so far, which are the last
  /// arguments of the function.
  mlir::Type inputType;
  std::vector<WeightInput> inputs;
  llvm::StringMap<mlir::Value> inputValues;
};

} // namespace knapper::serving
