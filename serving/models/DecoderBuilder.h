//===- DecoderBuilder.h - The program of a decoder, in tensor IR ----------===//
//
// One ragged step: T tokens of B sequences, chunks of prompts and single tokens
// mixed. Inputs, all i32 but the pools:
//
//   tokens [T]      what is read          position [T]  where in its sequence
//   sequence [T]    row of the table      block, offset [T]  where its key goes
//   table [B, M]    blocks of a sequence  rows [R]  tokens whose logits are
//   made keys.L, values.L [N, G, P, D]  the pools of layer L, then the weights
//   where they are inputs (DecoderForm.h)
//
// With `bestTokens` there are also, before the pools, source [T] and drawn [S]
// i64: where source is not -1 it is the place in `drawn` of the token that is
// read. A step can so follow one whose tokens the host does not know.
//
// Outputs: logits [R, vocabulary] f32, where asked for the best token of each
// row (i64) and its log-probability (f32), then the pools, which the program
// may be given the inputs' own memory for. T, B, M, R, S and N are symbols. No
// two tokens have one place of a block.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "serving/models/CheckpointBuilder.h"
#include "serving/models/DecoderConfig.h"
#include "serving/models/DecoderForm.h"

namespace knapper::serving {

class DecoderBuilder : public CheckpointBuilder {
public:
  DecoderBuilder(GraphBuilder &shared, mlir::Location location,
                 const DecoderConfig &config, const Checkpoint &checkpoint,
                 const DecoderForm &form)
      : CheckpointBuilder(shared, location, checkpoint, config.names.base),
        config(config), form(form),
        poolType(form.pools == DType::bf16 ? mlir::Type(shared.b.getBF16Type())
                                           : f32) {
    if (form.weightInputs)
      inputType = poolType;
  }

  /// The function @main of the module. UserError for weights that are missing,
  /// of another shape, or that nothing reads.
  Status build(mlir::ModuleOp module);

private:
  struct Angles {
    mlir::Value cosine, sine; ///< [T, 1, dims / 2]
  };

  std::string layerName(const std::string &name) const;
  mlir::Value norm(mlir::Value x, const std::string &name, int64_t width);
  /// x [T, in] times the matrix `name`.weight [out, in], plus `name`.bias.
  mlir::Value linear(mlir::Value x, const std::string &name, int64_t in,
                     int64_t out, bool bias);
  /// Matmuls with several matrices [out, in] at once.
  llvm::SmallVector<mlir::Value>
  linears(mlir::Value x, llvm::ArrayRef<std::string> names, int64_t in,
          llvm::ArrayRef<int64_t> outs, bool bias);
  mlir::Value columns(mlir::Value x, int64_t from, int64_t count);
  mlir::Value heads(mlir::Value x, int64_t count);
  mlir::Value rotate(mlir::Value x);
  mlir::Value headNorm(mlir::Value x, const std::string &name, int64_t count);
  mlir::Value activate(mlir::Value x);
  /// What passes through memory from kernel to kernel, in the pools' type: to
  /// widen what was narrowed would leave it wide.
  mlir::Value stored(mlir::Value x);
  /// What is read: the given tokens, or those of `drawn`.
  mlir::Value readTokens();
  mlir::Value embed();
  mlir::Value attention(mlir::Value x);
  mlir::Value mlp(mlir::Value x);
  /// The same of a layer whose MLP is a mixture of experts (Experts.cpp).
  mlir::Value experts(mlir::Value x);
  mlir::Value expertWeights(llvm::ArrayRef<std::string> names, int64_t rows,
                            int64_t columns);
  /// The pool with the new rows [T, G, D].
  mlir::Value write(mlir::Value pool, mlir::Value rows);
  mlir::Value logits(mlir::Value x);
  /// The best token of each row, and its log-probability.
  llvm::SmallVector<mlir::Value> best(mlir::Value logits);
  Angles makeAngles(const Rope &rope);

  const DecoderConfig &config;
  DecoderForm form;
  mlir::Type poolType;
  ts::Dim count; ///< of tokens
  mlir::Value tokens, position, sequence, block, offset, table, rows, source,
      drawn;
  llvm::SmallVector<mlir::Value> pools; ///< keys, values of each layer
  Angles angles, windowAngles;
  int64_t layer = 0;
};

} // namespace knapper::serving
