// Counts of n-grams in rows of numbers or words.
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// How often each of the `grams` (rows of `length` numbers) stands in each row
/// of x [rows, width], its elements `skip` apart: [rows, grams], i64.
Value countGrams(Node &n, Value x, ArrayRef<int64_t> grams, int64_t length,
                 int64_t skip) {
  Type i64 = n.b.getI64Type();
  int64_t count = static_cast<int64_t>(grams.size()) / length;
  SmallVector<Dim> dims = ts::dimsOf(x);
  Dim starts = dims[1] - (length - 1) * skip;
  std::optional<int64_t> low = ts::lowerBound(starts);
  if (!low || *low < 0)
    starts = starts.max(n.dim(0));
  SmallVector<Dim> all{dims[0], n.dim(count), starts};
  if (starts.isConstant(0))
    return n.broadcastTo(n.integerScalar(0, i64), {dims[0], n.dim(count)});
  Value hit;
  for (int64_t i = 0; i < length; ++i) {
    SmallVector<int64_t> wanted;
    for (int64_t g = 0; g < count; ++g)
      wanted.push_back(grams[g * length + i]);
    Value gram = n.constant(DenseElementsAttr::get(
        RankedTensorType::get({count}, i64), ArrayRef<int64_t>(wanted)));
    // A row shorter than the gram has no place to start from.
    Dim from = n.dim(i * skip);
    if (!low || *low < 0)
      from = from.min(dims[1] - starts);
    Value part = n.sliceDim(x, 1, from, starts);
    if (!part)
      return {};
    Value same =
        n.compare(ts::ComparePredicate::eq, n.broadcastAt(part, {0, 2}, all),
                  n.broadcastAt(gram, {1}, all));
    hit = hit ? n.binary<ts::AndOp>(hit, same) : same;
  }
  return n.reduce(ts::ReduceKind::add, n.convert(hit, i64), {2}, false);
}

/// Words as the places where they stand in the pool first. Returns the input's,
/// and fills `pool`.
Value placesOfWords(Node &n, SmallVector<int64_t> &pool) {
  SmallVector<std::string> words = n.texts("pool_strings");
  if (!isString(n[0])) {
    (void)n.fail("the pool holds strings, the input does not", "give strings");
    return {};
  }
  llvm::MapVector<StringRef, int64_t> places;
  pool.clear();
  for (const std::string &word : words)
    pool.push_back(places.insert({word, static_cast<int64_t>(places.size())})
                       .first->second);
  SmallVector<std::string> distinct;
  for (auto &[word, place] : places)
    distinct.push_back(word.str());
  return distinct.empty() ? n.broadcastTo(n.integerScalar(-1, n.b.getI64Type()),
                                          ts::dimsOf(n[0]))
                          : lookUpStrings(n, n[0], distinct);
}

LogicalResult importTfIdfVectorizer(Node &n) {
  SmallVector<int64_t> pool = n.integers("pool_int64s"),
                       begins = n.integers("ngram_counts"),
                       columns = n.integers("ngram_indexes");
  SmallVector<double> weights = n.reals("weights");
  int64_t least = n.integer("min_gram_length", 1),
          most = n.integer("max_gram_length", 1),
          skips = n.integer("max_skip_count", 0);
  std::string mode = n.text("mode", "TF");
  Value tokens = n.hasAttr("pool_strings") ? placesOfWords(n, pool) : n[0];
  if (!tokens)
    return failure();
  int64_t rank = ts::rankOf(n[0]);
  if (rank > 2 || !isa<IntegerType>(ts::elementTypeOf(tokens)))
    return n.fail("the input is " + ts::shapeText(n[0].getType()),
                  "give [C] or [N, C] integers, or strings with pool_strings");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return n.fail("mode is '" + mode + "'", "use TF, IDF or TFIDF");
  if (least < 1 || most < least || most > 64 || skips < 0 || skips > 1 << 10)
    return n.fail("min_gram_length, max_gram_length or max_skip_count is not "
                  "sensible",
                  "correct the attributes");
  // Part k of the pool holds the grams of length k + 1.
  auto size = static_cast<int64_t>(pool.size());
  begins.push_back(size);
  int64_t width = 0;
  size_t grams = 0;
  for (size_t k = 0; k + 1 < begins.size(); ++k) {
    int64_t length = static_cast<int64_t>(k) + 1,
            held = begins[k + 1] - begins[k];
    if (begins[k] < 0 || held < 0 || begins[k + 1] > size || held % length)
      return n.fail("ngram_counts does not divide the pool of " + Twine(size),
                    "give where the grams of each length begin");
    grams += held / length;
  }
  for (int64_t column : columns) {
    if (column < 0 || column > 1 << 24)
      return n.fail("ngram_indexes holds " + Twine(column), "give columns");
    width = std::max(width, column + 1);
  }
  if (columns.size() != grams ||
      (!weights.empty() && static_cast<int64_t>(weights.size()) < width))
    return n.fail("has " + Twine(grams) + " grams, " + Twine(columns.size()) +
                      " indexes and " + Twine(weights.size()) + " weights",
                  "give an index a gram and a weight a column");
  Type i64 = n.b.getI64Type(), f32 = n.b.getF32Type();
  Value x = n.convert(tokens, i64);
  Dim rows = rank == 2 ? ts::dimOf(n[0], 0) : n.dim(1);
  x = n.reshape(x, {rows, rank ? ts::dimOf(n[0], rank - 1) : n.dim(1)});
  if (!x)
    return failure();
  SmallVector<Value> parts;
  SmallVector<int64_t> places;
  SmallVector<float> factors;
  size_t first = 0;
  for (size_t k = 0; k + 1 < begins.size(); ++k) {
    int64_t length = static_cast<int64_t>(k) + 1;
    ArrayRef<int64_t> part =
        ArrayRef<int64_t>(pool).slice(begins[k], begins[k + 1] - begins[k]);
    size_t count = part.size() / length;
    if (length >= least && length <= most && count) {
      // One number alone has nothing to skip.
      Value sum;
      for (int64_t skip = 1; skip <= (length == 1 ? 1 : skips + 1); ++skip) {
        Value found = countGrams(n, x, part, length, skip);
        sum = sum ? n.add(sum, found) : found;
      }
      parts.push_back(sum);
      // A weight belongs to a column: so do all implementations, though the
      // operator's text says to a gram.
      for (size_t g = first; g < first + count; ++g) {
        places.push_back(columns[g]);
        factors.push_back(
            weights.empty() ? 1 : static_cast<float>(weights[columns[g]]));
      }
    }
    first += count;
  }
  SmallVector<Dim> result{rows, n.dim(width)};
  Value y = n.broadcastTo(n.scalar(0, f32), result);
  if (!parts.empty()) {
    Value counts = parts.size() == 1
                       ? parts[0]
                       : n.make<ts::ConcatOp>(ValueRange(parts), int64_t(1));
    if (!counts)
      return failure();
    SmallVector<Dim> dims = ts::dimsOf(counts);
    auto number = static_cast<int64_t>(places.size());
    Value factor = n.constant(DenseElementsAttr::get(
        RankedTensorType::get({number}, f32), ArrayRef<float>(factors)));
    factor = n.broadcastAt(factor, {1}, dims);
    Value amount = n.convert(counts, f32);
    if (mode == "TFIDF")
      amount = n.mul(amount, factor);
    if (mode == "IDF")
      amount = n.select(
          n.compare(ts::ComparePredicate::gt, counts, n.integerScalar(0, i64)),
          factor, n.scalar(0, f32));
    Value at = n.constant(DenseElementsAttr::get(
        RankedTensorType::get({number}, i64), ArrayRef<int64_t>(places)));
    y = n.make<ts::ScatterElementsOp>(
        y, n.broadcastAt(at, {1}, dims), amount, uint64_t(1),
        ts::ReduceKindAttr::get(n.importer.context, ts::ReduceKind::add));
  }
  return n.out(rank == 2 ? y : n.reshape(y, {n.dim(width)}));
}

constexpr OpRow rows[] = {
    {"", "TfIdfVectorizer", 9, 1, 1, importTfIdfVectorizer},
};

} // namespace

ArrayRef<OpRow> textRows() { return rows; }

} // namespace knapper
