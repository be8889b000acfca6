#include "serving/models/SamplerProgram.h"

#include "frontends/common/NodeBuilder.h"
#include "ir/tensor/TensorType.h"
#include "runtime/base/Text.h"
#include "serving/models/ProgramText.h"

#include <limits>

using namespace mlir;

namespace knapper::serving {

using ts::Dim;
using Dims = SmallVector<Dim>;

namespace {

/// Tokens whose weights are summed together: a row is searched block by block.
constexpr int64_t kBlock = 512;
constexpr int64_t kMostTokens = 64, kMostLogprobs = 20;
constexpr int64_t kMaskBits = 32; // of a word

class SamplerBuilder : public NodeBuilder {
public:
  SamplerBuilder(GraphBuilder &shared, Location location, int64_t vocabulary,
                 bool changed)
      : NodeBuilder(shared, location), vocabulary(vocabulary), changed(changed),
        blocks((vocabulary + kBlock - 1) / kBlock), f32(b.getF32Type()),
        i32(b.getI32Type()) {}
  std::string where() const override { return "the sampler"; }

  Status build(ModuleOp module);

private:
  Error problem() const {
    return error
               ? *error
               : internalError(missing.value_or("could not be built"), where());
  }
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
  Value largestOf(Value x) { return reduce(ts::ReduceKind::max, x, {1}, true); }
  Value at(Value x, Value ids) {
    return make<ts::GatherElementsOp>(x, ids, uint64_t(1));
  }
  Value argument(StringRef name, ArrayRef<Dim> dims, Type element);
  Value change(Value x);
  struct Draw {
    Value weightSum, token, margin;
    Value inside; ///< the token, no further than the last
  };
  Draw draw(Value weights, Value share);
  /// What `top_k`, `top_p` and `depth` leave.
  struct Limits {
    Value topK, topP, depth;
  };
  /// Zero where the distance from the largest logit is beyond the depth.
  Value within(Value weights, Value distance, Value depth) {
    Value isNear = compare(ts::ComparePredicate::ge, distance, column(depth));
    return weights ? select(isNear, weights, splatLike(0, weights)) : weights;
  }
  Value drawRank(ArrayRef<Value> top, Value largest, Value scale, Value share,
                 Value weightSum, const Limits &limits);

  const int64_t vocabulary;
  const bool changed;
  const int64_t blocks;
  Type f32, i32;
  Dim rows;
  Value rowNumber; ///< [rows] i32
  func::FuncOp main;
};

Value SamplerBuilder::argument(StringRef name, ArrayRef<Dim> dims,
                               Type element) {
  unsigned index = main.getNumArguments();
  auto named =
      b.getDictionaryAttr(b.getNamedAttr("ts.name", b.getStringAttr(name)));
  (void)main.insertArgument(
      index, ts::tensorType(shared.context, dims, element), named, loc);
  return main.getArgument(index);
}

/// The rows after LogitChange, and -inf where the mask has no bit.
Value SamplerBuilder::change(Value x) {
  int64_t words = (vocabulary + kMaskBits - 1) / kMaskBits;
  Dim count = shared.freshSymbol("changes");
  Dims each{rows, count}, bits{rows, dim(words), dim(kMaskBits)};
  Value mask = argument("mask", {rows, dim(words)}, i32);
  Value tokens = argument("tokens", each, i32);
  Value bias = argument("bias", each, f32);
  Value repetition = argument("repetition", each, f32);
  Value penalty = argument("penalty", each, f32);
  Value logit = add(at(x, tokens), bias);
  if (failed())
    return {};
  Value repeated =
      select(compare(ts::ComparePredicate::gt, logit, splatLike(0, logit)),
             div(logit, repetition), mul(logit, repetition));
  Value y = make<ts::ScatterElementsOp>(x, tokens, sub(repeated, penalty),
                                        uint64_t(1), ts::ReduceKindAttr());
  Value bit = makeAs<ts::IotaOp>(type(bits, i32), uint64_t(2));
  Value word = broadcastAt(mask, {0, 1}, bits);
  if (failed())
    return {};
  Value set =
      make<ts::AndOp>(make<ts::ShiftRightOp>(word, bit), splatLike(1, word));
  Value may = sliceDim(reshape(set, {rows, dim(words * kMaskBits)}), 1, dim(0),
                       dim(vocabulary));
  if (failed())
    return {};
  return select(compare(ts::ComparePredicate::ne, may, splatLike(0, may)), y,
                splatLike(-std::numeric_limits<double>::infinity(), y));
}

SamplerBuilder::Draw SamplerBuilder::draw(Value weights, Value share) {
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
  Value within = running(chosen), distance = sub(wanted, before);
  Value place = countAtMost(within, distance, kBlock - 1);
  Value token = add(mul(block, double(kBlock)), place);
  Value left = sub(entry(within, place, kBlock), distance);
  Value margin = make<ts::MinOp>(left, sub(entry(chosen, place, kBlock), left));
  if (failed())
    return {};
  Value inside =
      make<ts::MinOp>(token, splatLike(double(vocabulary - 1), token));
  return {all, convert(token, b.getI64Type()), margin, inside};
}

/// The token among the best ones, in their order, as sampleToken draws it.
Value SamplerBuilder::drawRank(ArrayRef<Value> top, Value largest, Value scale,
                               Value share, Value weightSum,
                               const Limits &limits) {
  int64_t known = summaryTokens(vocabulary);
  Value distance = sub(top[0], largest);
  Value weights = within(make<ts::ExpOp>(mul(distance, column(scale))),
                         distance, limits.depth);
  if (failed())
    return {};
  Value none = splatLike(0, weights);
  Value rank = makeAs<ts::IotaOp>(type({rows, dim(known)}, i32), uint64_t(1));
  Value isLimited =
      compare(ts::ComparePredicate::gt, limits.topK, splatLike(0, limits.topK));
  Value most =
      select(isLimited, limits.topK, splatLike(double(known), limits.topK));
  weights = select(compare(ts::ComparePredicate::lt, rank, column(most)),
                   weights, none);
  Value ends = running(weights);
  Value last = splatLike(double(known - 1), rowNumber);
  Value all = select(isLimited, entry(ends, last, known), weightSum);
  Value isHeld = compare(ts::ComparePredicate::lt, sub(ends, weights),
                         column(mul(limits.topP, all)));
  Value held = running(select(isHeld, weights, none));
  if (failed())
    return {};
  Value place =
      countAtMost(held, mul(share, entry(held, last, known)), known - 1);
  return entry(top[1], place, known);
}

Status SamplerBuilder::build(ModuleOp module) {
  rows = shared.freshSymbol("rows");
  b.setInsertionPointToEnd(module.getBody());
  main = func::FuncOp::create(b, loc, "main", b.getFunctionType({}, {}));
  b.setInsertionPointToEnd(main.addEntryBlock());
  Value logits =
      argument("logits", {shared.freshSymbol("logits"), dim(vocabulary)}, f32);
  Value wanted = argument("rows", {rows}, i32),
        scale = argument("scale", {rows}, f32),
        share = argument("share", {rows}, f32);
  Limits limits;
  if (!changed)
    limits = {argument("top_k", {rows}, i32), argument("top_p", {rows}, f32),
              argument("depth", {rows}, f32)};
  rowNumber = makeAs<ts::IotaOp>(type({rows}, i32), uint64_t(0));
  Value given = make<ts::GatherOp>(logits, wanted, uint64_t(0));
  Value x = changed ? change(given) : given;
  if (failed())
    return problem();
  auto best = [&](Value from, int64_t count) {
    Operation *op = makeOp<ts::TopKOp>(2, from, dim(count).attr(), uint64_t(1),
                                       /*largest=*/true);
    return op ? SmallVector<Value>(op->getResults())
              : SmallVector<Value>{{}, {}};
  };
  SmallVector<Value> top = best(x, summaryTokens(vocabulary));
  Value largestGiven = largestOf(given);
  Value logSum =
      add(make<ts::LogOp>(sum(make<ts::ExpOp>(sub(given, largestGiven)), 1)),
          reshape(largestGiven, {rows}));
  Value largest = changed ? largestOf(x) : largestGiven;
  Value distance = sub(x, largest);
  Value weights = make<ts::ExpOp>(mul(distance, column(scale)));
  if (!changed)
    weights = within(weights, distance, limits.depth);
  Draw drawn = draw(weights, share);
  if (failed())
    return problem();
  SmallVector<std::pair<StringRef, Value>> results{
      {"values", top[0]},
      {"ids", top[1]},
      {"log_sum", logSum},
      {"weight_sum", drawn.weightSum},
      {"drawn", drawn.token},
      {"drawn_margin", drawn.margin},
      {"drawn_logit", entry(x, drawn.inside, vocabulary)}};
  if (!changed) {
    Value ranked =
        drawRank(top, largest, scale, share, drawn.weightSum, limits);
    if (failed())
      return problem();
    auto isBelow = ts::ComparePredicate::lt;
    Value none = splatLike(0, limits.topK), one = splatLike(1, limits.topP);
    Value any = convert(drawn.inside, b.getI64Type());
    results.push_back(
        {"token",
         select(compare(isBelow, none, limits.topK), ranked,
                select(compare(isBelow, limits.topP, one), ranked, any))});
  }
  if (changed) {
    SmallVector<Value> most = best(given, summaryLogprobs(vocabulary));
    results.append({{"given", at(given, top[1])},
                    {"drawn_given", entry(given, drawn.inside, vocabulary)},
                    {"best_given", most[0]},
                    {"best_ids", most[1]}});
  }
  if (failed())
    return problem();
  SmallVector<Value> values;
  for (auto [name, value] : results)
    values.push_back(value);
  func::ReturnOp::create(b, loc, values);
  main.setType(b.getFunctionType(main.getArgumentTypes(),
                                 TypeRange(ValueRange(values))));
  for (auto [i, result] : llvm::enumerate(results))
    main.setResultAttr(i, "ts.name", b.getStringAttr(result.first));
  module->setAttr("ts.symbols", shared.symbolsAttr());
  return success();
}

} // namespace

int64_t summaryTokens(int64_t vocabulary) {
  return std::min(vocabulary, kMostTokens);
}

int64_t summaryLogprobs(int64_t vocabulary) {
  return std::min(vocabulary, kMostLogprobs);
}

Expected<std::shared_ptr<const Artefact>>
compileSampler(int64_t vocabulary, bool changed, Options options) {
  return compileProgram("sampler", {}, std::move(options), [&] {
    return programText("sampler", [&](GraphBuilder &graph, Location location,
                                      ModuleOp module) {
      return SamplerBuilder(graph, location, vocabulary, changed).build(module);
    });
  });
}

} // namespace knapper::serving
