#include "serving/models/SamplerProgram.h"

#include "frontends/common/NodeBuilder.h"
#include "ir/tensor/TensorType.h"
#include "runtime/base/Text.h"
#include "serving/models/ProgramText.h"

using namespace mlir;

namespace knapper::serving {

using ts::Dim;
using Dims = SmallVector<Dim>;

namespace {

/// Tokens whose weights are summed together: a row is searched block by block.
constexpr int64_t kBlock = 512;
constexpr int64_t kMostTokens = 64;

class SamplerBuilder : public NodeBuilder {
public:
  SamplerBuilder(GraphBuilder &shared, Location location, int64_t vocabulary)
      : NodeBuilder(shared, location), vocabulary(vocabulary),
        blocks((vocabulary + kBlock - 1) / kBlock), f32(b.getF32Type()),
        i32(b.getI32Type()) {}
  std::string where() const override { return "the sampler"; }

  Status build(ModuleOp module);

private:
  Value sum(Value x, int64_t along) {
    return reduce(ts::ReduceKind::add, x, {along}, false);
  }
  Value running(Value x) {
    return make<ts::ScanOp>(ts::ReduceKind::add, x, uint64_t(1), false, false);
  }
  /// Of the entries of each row how many are at most the row's bound, but no
  /// more than `most`.
  Value countAtMost(Value x, Value bound, int64_t most) {
    Value within = compare(ts::ComparePredicate::le, x, column(bound));
    Value count = sum(convert(within, i32), 1);
    return count ? make<ts::MinOp>(count, splatLike(double(most), count))
                 : count;
  }
  Value column(Value x) { return reshape(x, {rows, dim(1)}); }
  /// Entry `at[r]` of each row of x [rows, width].
  Value entry(Value x, Value at, int64_t width) {
    Value flat = reshape(x, {rows * dim(width)});
    return make<ts::GatherOp>(flat, add(mul(rowNumber, double(width)), at),
                              uint64_t(0));
  }
  SmallVector<Value> draw(Value weights, Value apart, Value share);

  const int64_t vocabulary, blocks;
  Type f32, i32;
  Dim rows;
  Value rowNumber; ///< [rows] i32
};

SmallVector<Value> SamplerBuilder::draw(Value weights, Value apart,
                                        Value share) {
  Value padded = weights;
  if (int64_t more = blocks * kBlock - vocabulary; more > 0)
    padded = make<ts::PadOp>(weights, Optional{scalar(0, f32)},
                             ts::dimArray(shared.context, {dim(0), dim(0)}),
                             ts::dimArray(shared.context, {dim(0), dim(more)}),
                             ts::PadMode::constant);
  Value parts = sum(reshape(padded, {rows, dim(blocks), dim(kBlock)}), 2);
  Value ends = running(parts);
  if (failed())
    return {};
  Value last = splatLike(double(blocks - 1), rowNumber);
  Value all = entry(ends, last, blocks);
  Value wanted = mul(share, all);
  Value block = countAtMost(ends, wanted, blocks - 1);
  Value before = sub(entry(ends, block, blocks), entry(parts, block, blocks));
  Value chosen = make<ts::GatherOp>(
      reshape(padded, {rows * dim(blocks), dim(kBlock)}),
      add(mul(rowNumber, double(blocks)), block), uint64_t(0));
  Value place = countAtMost(running(chosen), sub(wanted, before), kBlock - 1);
  Value token = add(mul(block, double(kBlock)), place);
  if (failed())
    return {};
  Value inside =
      make<ts::MinOp>(token, splatLike(double(vocabulary - 1), token));
  return {all, convert(token, b.getI64Type()),
          entry(apart, inside, vocabulary)};
}

Status SamplerBuilder::build(ModuleOp module) {
  rows = shared.freshSymbol("rows");
  Dim given = shared.freshSymbol("logits");
  auto input = [&](ArrayRef<Dim> dims, Type element) {
    return ts::tensorType(shared.context, dims, element);
  };
  SmallVector<Type> types{input({given, dim(vocabulary)}, f32),
                          input({rows}, i32), input({rows}, f32),
                          input({rows}, f32)};
  b.setInsertionPointToEnd(module.getBody());
  auto main =
      func::FuncOp::create(b, loc, "main", b.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  rowNumber = makeAs<ts::IotaOp>(type({rows}, i32), uint64_t(0));
  Value x = make<ts::GatherOp>(body->getArgument(0), body->getArgument(1),
                               uint64_t(0));
  if (failed())
    return *error;
  Operation *best =
      makeOp<ts::TopKOp>(2, x, dim(summaryTokens(vocabulary)).attr(),
                         uint64_t(1), /*largest=*/true);
  Value largest = reduce(ts::ReduceKind::max, x, {1}, true);
  Value apart = sub(x, largest);
  Value flatLargest = reshape(largest, {rows});
  Value logSum =
      add(make<ts::LogOp>(sum(make<ts::ExpOp>(apart), 1)), flatLargest);
  Value weights = make<ts::ExpOp>(mul(apart, column(body->getArgument(2))));
  SmallVector<Value> drawn = draw(weights, apart, body->getArgument(3));
  if (error || !best || drawn.empty() || !logSum)
    return error ? *error
                 : internalError("the program could not be built", where());
  Value drawnLogit = add(drawn[2], flatLargest);
  SmallVector<Value> results{
      best->getResult(0), best->getResult(1), logSum,
      drawn[0],           drawn[1],           drawnLogit};
  func::ReturnOp::create(b, loc, results);
  main.setType(b.getFunctionType(types, TypeRange(ValueRange(results))));
  constexpr const char *inputs[] = {"logits", "rows", "scale", "share"};
  constexpr const char *outputs[] = {"values",     "ids",   "log_sum",
                                     "weight_sum", "drawn", "drawn_logit"};
  for (auto [i, name] : llvm::enumerate(inputs))
    main.setArgAttr(i, "ts.name", b.getStringAttr(name));
  for (auto [i, name] : llvm::enumerate(outputs))
    main.setResultAttr(i, "ts.name", b.getStringAttr(name));
  module->setAttr("ts.symbols", shared.symbolsAttr());
  return success();
}

} // namespace

int64_t summaryTokens(int64_t vocabulary) {
  return std::min(vocabulary, kMostTokens);
}

Expected<std::shared_ptr<const Artefact>> compileSampler(int64_t vocabulary,
                                                         Options options) {
  return compileProgram("sampler", {}, std::move(options), [&] {
    return programText("sampler", [&](GraphBuilder &graph, Location location,
                                      ModuleOp module) {
      return SamplerBuilder(graph, location, vocabulary).build(module);
    });
  });
}

} // namespace knapper::serving
