#include "serving/models/EncoderBuilder.h"

#include "ir/tensor/TensorType.h"
#include "runtime/base/Text.h"

#include <cmath>

using namespace mlir;

namespace knapper::serving {

using ts::Dim;
using Dims = SmallVector<Dim>;

Value EncoderBuilder::norm(Value x, const std::string &name) {
  Value scale = weight(name + ".weight", {config.width}),
        bias = weight(name + ".bias", {config.width});
  if (failed() || !x)
    return {};
  return make<ts::LayerNormOp>(
      x, scale, Optional{bias}, static_cast<uint64_t>(ts::rankOf(x) - 1),
      llvm::APFloat(config.normEpsilon), /*rms=*/false);
}

Value EncoderBuilder::linear(Value x, const std::string &name, int64_t in,
                             int64_t out) {
  Value y = matmul(x, weight(name + ".weight", {out, in}), false);
  return add(y, weight(name + ".bias", {out}));
}

Value EncoderBuilder::embed(Value tokens) {
  const std::string base = "bert.embeddings.";
  Value x = make<ts::GatherOp>(weight(base + "word_embeddings.weight",
                                      {config.vocabulary, config.width}),
                               tokens, uint64_t(0));
  Value place = makeAs<ts::IotaOp>(type({length}, b.getI32Type()), uint64_t(0));
  Value places =
      make<ts::GatherOp>(weight(base + "position_embeddings.weight",
                                {config.contextLength, config.width}),
                         place, uint64_t(0));
  // All of one text: of the first kind.
  Value kind = sliceDim(weight(base + "token_type_embeddings.weight",
                               {config.tokenTypes, config.width}),
                        0, dim(0), dim(1));
  if (failed())
    return {};
  x = add(add(x, places), kind);
  return norm(x, base + "LayerNorm");
}

Value EncoderBuilder::attention(Value x, const std::string &name) {
  int64_t headWidth = config.width / config.heads;
  auto heads = [&](const char *part) {
    Value y = linear(x, name + "self." + part, config.width, config.width);
    y = reshape(y, {texts, length, dim(config.heads), dim(headWidth)});
    return transpose(y, {0, 2, 1, 3});
  };
  Value q = heads("query"), k = heads("key"), v = heads("value");
  if (failed())
    return {};
  Value y = make<ts::AttentionOp>(
      q, k, v, Optional{},
      llvm::APFloat(1 / std::sqrt(static_cast<double>(headWidth))), false,
      false, llvm::APFloat(0.0));
  y = reshape(transpose(y, {0, 2, 1, 3}), {texts, length, dim(config.width)});
  return linear(y, name + "output.dense", config.width, config.width);
}

Value EncoderBuilder::pool(Value x) {
  if (failed())
    return {};
  Value y;
  switch (config.pooling) {
  case Pooling::mean:
    y = mean(x, {1}, false);
    break;
  case Pooling::max:
    y = reduce(ts::ReduceKind::max, x, {1}, false);
    break;
  case Pooling::first:
    y = reshape(sliceDim(x, 1, dim(0), dim(1)), {texts, dim(config.width)});
    break;
  }
  if (!config.normalised || failed())
    return y;
  Value squares = reduce(ts::ReduceKind::add, mul(y, y), {1}, true);
  // As torch.nn.functional.normalize.
  Value norm = make<ts::SqrtOp>(squares);
  norm = make<ts::MaxOp>(norm, splatLike(1e-12, norm));
  return div(y, norm);
}

Status EncoderBuilder::build(ModuleOp module) {
  texts = shared.freshSymbol("texts");
  length = shared.freshSymbol("tokens");
  b.setInsertionPointToEnd(module.getBody());
  Type input =
      ts::tensorType(shared.context, Dims{texts, length}, b.getI32Type());
  auto main =
      func::FuncOp::create(b, loc, "main", b.getFunctionType({input}, {}));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  Value x = embed(body->getArgument(0));
  for (int64_t layer = 0; layer < config.layers && !failed(); ++layer) {
    at = cat("layer ", layer);
    std::string name = cat("bert.encoder.layer.", layer, ".");
    x = norm(add(x, attention(x, name + "attention.")),
             name + "attention.output.LayerNorm");
    Value inside =
        linear(x, name + "intermediate.dense", config.width, config.inner);
    if (failed())
      break;
    inside =
        make<ts::GeluOp>(inside, config.activation == Activation::geluTanh);
    x = norm(add(x, linear(inside, name + "output.dense", config.inner,
                           config.width)),
             name + "output.LayerNorm");
  }
  at = "the model";
  Value y = pool(x);
  if (error)
    return *error;
  if (missing || !y)
    return internalError(missing.value_or("the program could not be built"),
                         at);
  // Heads of other tasks, of which nothing is asked.
  for (const auto &[name, tensor] : checkpoint.tensors())
    if (llvm::StringRef(name).starts_with("cls.") ||
        llvm::StringRef(name).contains("pooler.") ||
        llvm::StringRef(name).ends_with("position_ids"))
      read.insert(name);
  TRY(checkAllRead(config.family));
  func::ReturnOp::create(b, loc, y);
  main.setType(b.getFunctionType({input}, {y.getType()}));
  main.setArgAttr(0, "ts.name", b.getStringAttr("tokens"));
  main.setResultAttr(0, "ts.name", b.getStringAttr("vectors"));
  module->setAttr("ts.symbols", shared.symbolsAttr());
  setFiles(module);
  return success();
}

} // namespace knapper::serving
