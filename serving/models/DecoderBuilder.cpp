#include "serving/models/DecoderBuilder.h"

#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/TensorType.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;

namespace knapper::serving {

using ts::Dim;
using Dims = SmallVector<Dim>;

std::string DecoderBuilder::layerName(const std::string &name) const {
  std::string prefix = config.names.layer;
  size_t at = prefix.find("{}");
  if (at != prefix.npos)
    prefix.replace(at, 2, std::to_string(layer));
  return prefix + name;
}

Value DecoderBuilder::norm(Value x, const std::string &name, int64_t width) {
  Value scale = weight(name + ".weight", {width}), bias;
  if (config.norm == NormKind::layer)
    bias = weight(name + ".bias", {width});
  if (failed() || !x)
    return {};
  if (config.norm == NormKind::rmsOnePlus)
    scale = add(scale, 1);
  return make<ts::LayerNormOp>(
      x, scale, Optional{bias}, static_cast<uint64_t>(ts::rankOf(x) - 1),
      llvm::APFloat(config.normEpsilon), config.norm != NormKind::layer);
}

Value DecoderBuilder::linear(Value x, const std::string &name, int64_t in,
                             int64_t out, bool bias) {
  bool transposed = config.transposedWeights;
  Value y;
  if (form.weightBits) {
    y = packedMatmul(x, name + ".weight", in, out, form.weightBits, transposed);
  } else {
    Value matrix = transposed ? weight(name + ".weight", {in, out})
                              : weight(name + ".weight", {out, in});
    y = matmul(x, matrix, transposed);
  }
  return bias ? add(y, weight(name + ".bias", {out})) : y;
}

SmallVector<Value> DecoderBuilder::linears(Value x, ArrayRef<std::string> names,
                                           int64_t in, ArrayRef<int64_t> outs,
                                           bool bias) {
  SmallVector<Value> results;
  // Of constants the compiler makes one matmul.
  if (!inputType || config.transposedWeights) {
    for (auto [name, out] : llvm::zip(names, outs))
      results.push_back(linear(x, name, in, out, bias));
    return results;
  }
  SmallVector<std::string> matrices, biases;
  SmallVector<SmallVector<int64_t>> shapes, rows;
  for (auto [name, out] : llvm::zip(names, outs)) {
    matrices.push_back(name + ".weight");
    biases.push_back(name + ".bias");
    shapes.push_back({out, in});
    rows.push_back({out});
  }
  Value y = form.weightBits
                ? packedMatmul(x, matrices, in, outs, form.weightBits,
                               /*transposed=*/false)
                : matmul(x, weights(matrices, shapes), /*transposed=*/false);
  if (bias)
    y = add(y, weights(biases, rows));
  int64_t from = 0;
  for (int64_t out : outs) {
    results.push_back(columns(y, from, out));
    from += out;
  }
  return results;
}

Value DecoderBuilder::columns(Value x, int64_t from, int64_t count) {
  return failed() ? Value() : sliceDim(x, 1, dim(from), dim(count));
}

Value DecoderBuilder::heads(Value x, int64_t number) {
  return reshape(x, {count, dim(number), dim(config.headWidth)});
}

DecoderBuilder::Angles DecoderBuilder::makeAngles(const Rope &rope) {
  std::vector<float> frequencies = ropeFrequencies(rope);
  auto half = static_cast<int64_t>(frequencies.size());
  Value line = constant(DenseElementsAttr::get(
      RankedTensorType::get({half}, f32), ArrayRef<float>(frequencies)));
  Dims dims{count, dim(1), dim(half)};
  Value angle = mul(broadcastAt(convert(position, f32), {0}, dims),
                    broadcastAt(line, {2}, dims));
  Value cosine = make<ts::CosOp>(angle), sine = make<ts::SinOp>(angle);
  if (rope.angleScale != 1)
    return {mul(cosine, rope.angleScale), mul(sine, rope.angleScale)};
  return {cosine, sine};
}

/// Heads [T, H, D], rotated by their token's position.
Value DecoderBuilder::rotate(Value x) {
  if (config.position != PositionKind::rope || failed())
    return x;
  const auto &[cosine, sine] =
      config.windowRope && config.windows[layer] > 0 ? windowAngles : angles;
  Dims dims = ts::dimsOf(x);
  Value wide = reshape(x, {dims[0], dims[1], dim(1), dims[2]});
  return reshape(make<ts::RopeOp>(wide, cosine, sine, false), dims);
}

Value DecoderBuilder::headNorm(Value x, const std::string &name,
                               int64_t number) {
  if (config.queryNorm == DecoderConfig::QueryNorm::none || failed())
    return x;
  if (config.queryNorm == DecoderConfig::QueryNorm::head)
    return norm(x, layerName(name), config.headWidth);
  int64_t width = number * config.headWidth;
  return heads(norm(reshape(x, {count, dim(width)}), layerName(name), width),
               number);
}

Value DecoderBuilder::stored(Value x) { return convert(x, poolType); }

Value DecoderBuilder::activate(Value x) {
  if (failed())
    return {};
  switch (config.activation) {
  case Activation::silu:
    return mul(x, make<ts::SigmoidOp>(x));
  case Activation::gelu:
    return make<ts::GeluOp>(x, false);
  case Activation::geluTanh:
    return make<ts::GeluOp>(x, true);
  case Activation::relu:
    return make<ts::MaxOp>(x, splatLike(0, x));
  }
  return {};
}

Value DecoderBuilder::readTokens() {
  if (!form.bestTokens)
    return tokens;
  Value none = splatLike(0, source);
  Value known = convert(
      make<ts::GatherOp>(drawn, make<ts::MaxOp>(source, none), uint64_t(0)),
      b.getI32Type());
  if (failed())
    return {};
  return select(compare(ts::ComparePredicate::lt, source, none), tokens, known);
}

Value DecoderBuilder::embed() {
  Value x = make<ts::GatherOp>(
      weight(config.names.embedding, {config.vocabulary, config.width}),
      readTokens(), uint64_t(0));
  if (failed())
    return {};
  if (config.embeddingScale != 1)
    x = mul(x, config.embeddingScale);
  if (config.position == PositionKind::learned)
    x = add(x, make<ts::GatherOp>(weight(config.names.positions,
                                         {config.contextLength, config.width}),
                                  position, uint64_t(0)));
  return x;
}

Value DecoderBuilder::write(Value pool, Value newRows) {
  Dims dims{count, dim(config.keyHeads), dim(1)};
  Type number = b.getI32Type();
  Value head = makeAs<ts::IotaOp>(type(dims, number), uint64_t(1));
  Value index =
      make<ts::ConcatOp>(ValueRange{broadcastAt(block, {0}, dims), head,
                                    broadcastAt(offset, {0}, dims)},
                         uint64_t(2));
  Value written = make<ts::ScatterNdOp>(pool, index, convert(newRows, poolType),
                                        ts::ReduceKindAttr());
  if (written)
    written.getDefiningOp()->setAttr("ts.unique_indices", b.getUnitAttr());
  return written;
}

Value DecoderBuilder::attention(Value x) {
  const TensorNames &names = config.names;
  int64_t queryWidth = config.heads * config.headWidth,
          keyWidth = config.keyHeads * config.headWidth;
  Value q, k, v;
  if (names.queryKeyValue.empty()) {
    SmallVector<Value> all = linears(
        x,
        {layerName(names.query), layerName(names.key), layerName(names.value)},
        config.width, {queryWidth, keyWidth, keyWidth}, config.inputBias);
    q = all[0], k = all[1], v = all[2];
  } else {
    Value all = linear(x, layerName(names.queryKeyValue), config.width,
                       queryWidth + 2 * keyWidth, config.inputBias);
    q = columns(all, 0, queryWidth);
    k = columns(all, queryWidth, keyWidth);
    v = columns(all, queryWidth + keyWidth, keyWidth);
  }
  if (failed())
    return {};
  q = rotate(headNorm(heads(q, config.heads), names.queryNorm, config.heads));
  k = rotate(
      headNorm(heads(k, config.keyHeads), names.keyNorm, config.keyHeads));
  v = heads(v, config.keyHeads);
  Value &keys = pools[2 * layer], &values = pools[2 * layer + 1];
  keys = write(keys, k);
  values = write(values, v);
  double scale = config.attentionScale != 0
                     ? config.attentionScale
                     : 1 / std::sqrt(static_cast<double>(config.headWidth));
  Value y = make<ts::PagedAttentionOp>(
      convert(q, poolType), keys, values, table, sequence, position,
      llvm::APFloat(scale), static_cast<uint64_t>(config.windows[layer]),
      llvm::APFloat(config.scoreCap));
  if (failed())
    return {};
  y = convert(y, f32);
  return linear(reshape(y, {count, dim(queryWidth)}), layerName(names.output),
                queryWidth, config.width, config.outputBias);
}

Value DecoderBuilder::mlp(Value x) {
  if (config.experts &&
      (config.denseLayers.empty() || !config.denseLayers[layer]))
    return experts(x);
  const TensorNames &names = config.names;
  auto in = [&](const std::string &name, int64_t out) {
    return linear(x, layerName(name), config.width, out, config.mlpBias);
  };
  Value inside;
  if (!config.gated) {
    inside = activate(in(names.up, config.inner));
  } else if (names.gateUp.empty()) {
    Value gate = in(names.gate, config.inner);
    inside = convert(
        mul(stored(activate(gate)), stored(in(names.up, config.inner))), f32);
  } else {
    Value both = in(names.gateUp, 2 * config.inner);
    inside = mul(activate(columns(both, 0, config.inner)),
                 columns(both, config.inner, config.inner));
  }
  return linear(inside, layerName(names.down), config.inner, config.width,
                config.mlpBias);
}

Value DecoderBuilder::logits(Value x) {
  const TensorNames &names = config.names;
  x = make<ts::GatherOp>(x, rows, uint64_t(0));
  x = norm(x, names.finalNorm, config.width);
  // What is tied need not be there twice.
  bool own = !config.tiedHead && checkpoint.find(names.head);
  if (config.tiedHead && checkpoint.find(names.head))
    read.insert(names.head);
  const std::string &head = own ? names.head : names.embedding;
  Value y = form.weightBits
                ? packedMatmul(x, head, config.width, config.vocabulary,
                               form.weightBits, /*transposed=*/false)
                : matmul(x, weight(head, {config.vocabulary, config.width}),
                         /*transposed=*/false);
  if (config.logitCap > 0 && !failed())
    y = mul(make<ts::TanhOp>(mul(y, 1 / config.logitCap)), config.logitCap);
  return y;
}

SmallVector<Value> DecoderBuilder::best(Value logits) {
  if (failed())
    return {};
  Value token = make<ts::ArgReduceOp>(ts::ReduceKind::max, logits, uint64_t(1),
                                      /*last=*/false);
  Value largest = make<ts::ReduceOp>(ts::ReduceKind::max, logits,
                                     ArrayRef<int64_t>{1}, false);
  if (failed())
    return {};
  Value apart =
      make<ts::SubOp>(logits, broadcastAt(largest, {0}, ts::dimsOf(logits)));
  Value all = make<ts::ReduceOp>(ts::ReduceKind::add, make<ts::ExpOp>(apart),
                                 ArrayRef<int64_t>{1}, false);
  return {token, make<ts::NegOp>(make<ts::LogOp>(all))};
}

Status DecoderBuilder::build(ModuleOp module) {
  auto symbol = [&](llvm::StringRef name) { return shared.freshSymbol(name); };
  count = symbol("tokens");
  Dim sequences = symbol("sequences"), blocks = symbol("blocks"),
      wanted = symbol("rows"), pool = symbol("pool");
  SmallVector<Type> types;
  SmallVector<std::string> names;
  auto argument = [&](std::string name, ArrayRef<Dim> dims, Type element) {
    types.push_back(ts::tensorType(shared.context, dims, element));
    names.push_back(std::move(name));
  };
  Type number = b.getI32Type();
  for (const char *name : {"tokens", "position", "sequence", "block", "offset"})
    argument(name, {count}, number);
  argument("table", {sequences, blocks}, number);
  argument("rows", {wanted}, number);
  if (form.bestTokens) {
    argument("source", {count}, number);
    argument("drawn", {symbol("drawn")}, b.getI64Type());
  }
  Dims poolDims{pool, dim(config.keyHeads), dim(form.blockTokens),
                dim(config.headWidth)};
  for (int64_t i = 0; i < config.layers; ++i) {
    argument("keys." + std::to_string(i), poolDims, poolType);
    argument("values." + std::to_string(i), poolDims, poolType);
  }
  b.setInsertionPointToEnd(module.getBody());
  auto main =
      func::FuncOp::create(b, loc, "main", b.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  SmallVector<Value *> numbers{&tokens, &position, &sequence, &block,
                               &offset, &table,    &rows};
  if (form.bestTokens)
    numbers.append({&source, &drawn});
  for (auto [i, input] : llvm::enumerate(numbers))
    *input = body->getArgument(i);
  llvm::append_range(pools, body->getArguments().drop_front(numbers.size()));
  if (config.position == PositionKind::rope) {
    angles = makeAngles(config.rope);
    if (config.windowRope)
      windowAngles = makeAngles(*config.windowRope);
  }
  Value x = embed();
  const TensorNames &tensors = config.names;
  auto around = [&](const std::string &before, const std::string &after,
                    auto inside) {
    Value y = before.empty() ? x : norm(x, layerName(before), config.width);
    y = inside(y);
    if (!after.empty())
      y = norm(y, layerName(after), config.width);
    x = convert(add(stored(x), stored(y)), f32);
  };
  for (layer = 0; layer < config.layers && !failed(); ++layer) {
    at = cat("layer ", layer);
    around(tensors.inputNorm, tensors.afterAttentionNorm,
           [&](Value y) { return attention(y); });
    around(tensors.mlpNorm, tensors.afterMlpNorm,
           [&](Value y) { return mlp(y); });
  }
  at = "the model";
  Value y = logits(x);
  SmallVector<Value> results{y};
  SmallVector<std::string> resultNames{"logits"};
  if (form.bestTokens) {
    llvm::append_range(results, best(y));
    resultNames.append({"best", "best_logprob"});
  }
  if (error)
    return *error;
  if (missing || !y)
    return internalError(missing.value_or("the program could not be built"),
                         at);
  TRY(checkAllRead(config.family));
  llvm::append_range(results, pools);
  func::ReturnOp::create(b, loc, results);
  for (const WeightInput &input : inputs) {
    constexpr const char *what[] = {"", " integers", " scales"};
    names.push_back(llvm::join(input.tensors, "+") +
                    what[static_cast<size_t>(input.form)]);
  }
  main.setType(b.getFunctionType(body->getArgumentTypes(),
                                 ValueRange(results).getTypes()));
  for (auto [i, name] : llvm::enumerate(names))
    main.setArgAttr(i, "ts.name", b.getStringAttr(name));
  for (size_t i = 0; i < pools.size(); ++i)
    resultNames.push_back("new_" + names[numbers.size() + i]);
  for (auto [i, name] : llvm::enumerate(resultNames))
    main.setResultAttr(i, "ts.name", b.getStringAttr(name));
  module->setAttr("ts.symbols", shared.symbolsAttr());
  if (!inputType)
    setFiles(module);
  return success();
}

} // namespace knapper::serving
