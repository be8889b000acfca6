#include "frontends/stablehlo/HloNode.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloNarrow.h"
#include "frontends/stablehlo/HloQuantised.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

StringRef hloName(Operation *op) {
  StringRef name = op->getName().stripDialect();
  auto [plain, version] = name.rsplit("_v");
  return !version.empty() && llvm::all_of(version, llvm::isDigit) ? plain
                                                                  : name;
}

HloNode::HloNode(HloImporter &importer, HloFrame &frame, Operation *op,
                 std::string kind, Location loc)
    : NodeBuilder(importer, loc), results(op->getNumResults()),
      importer(importer), frame(frame), op(op), kind(std::move(kind)) {}

std::string HloNode::where() const {
  std::string text = kind;
  std::string line = hloSourceLine(op, frame);
  return line.empty() ? text : text + " at " + line;
}

LogicalResult HloNode::importAs(const HloRow &row, HloNode &other) {
  bool built = succeeded(row.import(other));
  error = other.error;
  missing = other.missing;
  return mlir::success(built && !failed());
}

LogicalResult HloNode::damaged(const Twine &what) {
  return fail(what, "the file is damaged: export it again");
}

SmallVector<int64_t> HloNode::shape(Value value) const {
  SmallVector<int64_t> numbers;
  for (Dim dim : value ? ts::dimsOf(value) : SmallVector<Dim>())
    numbers.push_back(dim.asConstant().value_or(0));
  return numbers;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

bool HloNode::has(StringRef name) const { return bool(op->getAttr(name)); }

int64_t HloNode::integer(StringRef name) {
  auto attribute = op->getAttrOfType<IntegerAttr>(name);
  if (attribute && attribute.getValue().getSignificantBits() <= 64)
    return attribute.getValue().getSExtValue();
  (void)damaged("attribute '" + name + "' is no integer");
  return 0;
}

bool HloNode::flag(StringRef name) {
  auto attribute = op->getAttrOfType<BoolAttr>(name);
  return attribute && attribute.getValue();
}

StringRef HloNode::text(StringRef name) {
  auto attribute = op->getAttrOfType<StringAttr>(name);
  if (attribute)
    return attribute.getValue();
  if (auto symbol = op->getAttrOfType<FlatSymbolRefAttr>(name)) // a text's call
    return symbol.getValue();
  (void)damaged("attribute '" + name + "' is no text");
  return "";
}

SmallVector<int64_t> HloNode::integers(StringRef name) {
  Attribute attribute = op->getAttr(name);
  SmallVector<int64_t> values;
  if (!attribute)
    return values;
  if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    for (Attribute entry : list) {
      auto number = dyn_cast<IntegerAttr>(entry);
      if (!number || number.getValue().getSignificantBits() > 64) {
        (void)damaged("attribute '" + name + "' is no list of integers");
        return {};
      }
      values.push_back(number.getValue().getSExtValue());
    }
    return values;
  }
  auto tensor = dyn_cast<DenseElementsAttr>(attribute);
  if (!tensor || !tensor.getElementType().isInteger(64) ||
      tensor.getNumElements() > 4096) {
    (void)damaged("attribute '" + name + "' is no list of integers");
    return values;
  }
  for (const APInt &value : tensor.getValues<APInt>())
    values.push_back(value.getSExtValue());
  return values;
}

SmallVector<int64_t> HloNode::integers(StringRef name, size_t count) {
  SmallVector<int64_t> values = integers(name);
  if (values.size() != count) {
    (void)damaged("attribute '" + name + "' has " + Twine(values.size()) +
                  " entries for " + Twine(count));
    values.assign(count, 0);
  }
  return values;
}

SmallVector<bool> HloNode::flags(StringRef name, size_t count) {
  Attribute attribute = op->getAttr(name);
  SmallVector<bool> values;
  if (!attribute)
    return SmallVector<bool>(count, false);
  auto tensor = dyn_cast<DenseElementsAttr>(attribute);
  if (tensor && tensor.getElementType().isInteger(1) &&
      tensor.getNumElements() == static_cast<int64_t>(count)) {
    for (const APInt &value : tensor.getValues<APInt>())
      values.push_back(value.getBoolValue());
    return values;
  }
  (void)damaged("attribute '" + name + "' is no list of booleans");
  return SmallVector<bool>(count, false);
}

SmallVector<int64_t> HloNode::dims(StringRef name, int64_t rank) {
  SmallVector<int64_t> values = integers(name), sorted = values;
  llvm::sort(sorted);
  bool repeats =
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (repeats ||
      (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= rank))) {
    (void)damaged("attribute '" + name + "' names no dims of rank " +
                  Twine(rank));
    return {};
  }
  return values;
}

int64_t HloNode::dimension(StringRef name, int64_t rank) {
  int64_t value = integer(name);
  if (value >= 0 && value < rank)
    return value;
  (void)damaged("attribute '" + name + "' names no dim of rank " + Twine(rank));
  return 0;
}

SmallVector<std::pair<int64_t, int64_t>> HloNode::padding(StringRef name,
                                                          size_t count) {
  SmallVector<int64_t> flat = integers(name, 2 * count);
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < count; ++i)
    pairs.emplace_back(flat[2 * i], flat[2 * i + 1]);
  constexpr int64_t most = int64_t(1) << 40;
  for (auto [low, high] : pairs)
    if (low < -most || low > most || high < -most || high > most)
      (void)damaged("attribute '" + name + "' is out of range");
  return pairs;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

RankedTensorType HloNode::resultType(size_t index) {
  if (index >= op->getNumResults()) {
    (void)damaged("has " + Twine(op->getNumResults()) + " results");
    return {};
  }
  std::string problem;
  Type given = op->getResult(index).getType();
  if (auto tensor = dyn_cast<RankedTensorType>(given); tensor && onPlanes)
    if (auto complex = dyn_cast<ComplexType>(tensor.getElementType()))
      given = tensor.clone(complex.getElementType());
  bool quantised = isHloQuantised(given);
  RankedTensorType type = hloType(given, problem);
  if (type && quantised && computed)
    type = type.clone(computed);
  if (type && onWide)
    type = type.clone(hloWideType(type.getElementType()));
  if (type && !type.hasStaticShape() && !frame.lift) {
    // Others read its rank and its elements alone.
    SmallVector<Dim> dims = hloCommonDims(*this);
    if (static_cast<int64_t>(dims.size()) == type.getRank())
      return this->type(dims, type.getElementType());
    return type;
  }
  if (!type)
    (void)unsupported(problem);
  else if (frame.lift && kind != "constant")
    return hloLiftedType(*this, given, type, *frame.lift);
  return type;
}

Type HloNode::element(size_t index) {
  RankedTensorType type = resultType(index);
  return type ? type.getElementType() : Type();
}

SmallVector<Dim> HloNode::resultDims(size_t index) {
  RankedTensorType type = resultType(index);
  return type ? ts::dimsOf(Type(type)) : SmallVector<Dim>();
}

LogicalResult HloNode::out(Value value, size_t index) {
  if (index >= results.size())
    return damaged("has " + Twine(results.size()) + " results");
  if (!value || failed())
    return failure();
  results[index] = value;
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static SmallVector<Dim> numbersAsDims(NodeBuilder &n,
                                      ArrayRef<int64_t> numbers) {
  SmallVector<Dim> dims;
  for (int64_t number : numbers)
    dims.push_back(n.dim(number));
  return dims;
}

Value HloNode::reshapeTo(Value value, ArrayRef<int64_t> shape) {
  return reshape(value, numbersAsDims(*this, shape));
}

Value HloNode::slice(Value value, ArrayRef<int64_t> starts,
                     ArrayRef<int64_t> counts, ArrayRef<int64_t> steps) {
  if (!value || failed())
    return {};
  SmallVector<int64_t> own = shape(value);
  bool whole = true;
  for (size_t i = 0; i < own.size(); ++i) {
    whole &= starts[i] == 0 && counts[i] == own[i] && steps[i] == 1;
    if (counts[i] < 0 ||
        (counts[i] > 0 &&
         (starts[i] < 0 || starts[i] >= own[i] ||
          (counts[i] - 1) > (own[i] - 1) / std::abs(steps[i]) ||
          starts[i] + (counts[i] - 1) * steps[i] < 0 ||
          starts[i] + (counts[i] - 1) * steps[i] >= own[i]))) {
      (void)damaged("reads outside " + ts::shapeText(value.getType()));
      return {};
    }
  }
  if (whole)
    return value;
  return makeAs<ts::SliceOp>(
      type(numbersAsDims(*this, counts), ts::elementTypeOf(value)), value,
      ts::dimArray(shared.context, numbersAsDims(*this, starts)), steps);
}

Value HloNode::iota(ArrayRef<int64_t> shape, int64_t dim, Type element) {
  return makeAs<ts::IotaOp>(type(numbersAsDims(*this, shape), element),
                            uint64_t(dim));
}

Value HloNode::reverse(Value value, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> counts = shape(value), starts(counts.size(), 0),
                       steps(counts.size(), 1);
  for (int64_t dim : dims) {
    if (counts[dim] < 2)
      continue;
    starts[dim] = counts[dim] - 1;
    steps[dim] = -1;
  }
  return slice(value, starts, counts, steps);
}

Value HloNode::pad(Value x, Value value, ArrayRef<int64_t> low,
                   ArrayRef<int64_t> high, ArrayRef<int64_t> interior) {
  if (!x || failed())
    return {};
  MLIRContext *context = shared.context;
  SmallVector<int64_t> own = shape(x);
  size_t rank = own.size();
  auto plain = [&](Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
    bool none = llvm::all_of(low, [](int64_t v) { return v == 0; }) &&
                llvm::all_of(high, [](int64_t v) { return v == 0; });
    return none ? x
                : make<ts::PadOp>(
                      x, Optional{value},
                      ts::dimArray(context, numbersAsDims(*this, low)),
                      ts::dimArray(context, numbersAsDims(*this, high)),
                      ts::PadMode::constant);
  };
  // [d, e] between becomes [d, 1, e, 1], which is padded and cut.
  if (llvm::any_of(interior, [](int64_t v) { return v > 0; })) {
    SmallVector<int64_t> split, after, spread, zeros(2 * rank, 0);
    for (size_t i = 0; i < rank; ++i) {
      split.append({own[i], 1});
      after.append({0, interior[i]});
      spread.push_back(own[i] * (interior[i] + 1));
    }
    x = reshapeTo(plain(reshapeTo(x, split), zeros, after), spread);
    for (size_t i = 0; i < rank; ++i)
      own[i] = own[i] ? own[i] + (own[i] - 1) * interior[i] : 0;
    x = slice(x, SmallVector<int64_t>(rank, 0), own,
              SmallVector<int64_t>(rank, 1));
  }
  SmallVector<int64_t> before, behind, starts, counts;
  for (size_t i = 0; i < rank; ++i) {
    before.push_back(std::max<int64_t>(low[i], 0));
    behind.push_back(std::max<int64_t>(high[i], 0));
    starts.push_back(std::max<int64_t>(-low[i], 0));
    counts.push_back(own[i] + low[i] + high[i]);
    if (counts.back() < 0) {
      (void)damaged("pads " + Twine(own[i]) + " elements to " +
                    Twine(counts.back()));
      return {};
    }
  }
  return slice(plain(x, before, behind), starts, counts,
               SmallVector<int64_t>(rank, 1));
}

std::optional<Dim> HloNode::knownStart(Value start, int64_t size,
                                       int64_t count) {
  std::optional<SmallVector<Dim>> known =
      start ? shared.sizes(start) : std::nullopt;
  if (!known || known->size() != 1)
    return std::nullopt;
  Dim at = (*known)[0];
  if (std::optional<int64_t> number = at.asConstant())
    return dim(std::clamp<int64_t>(*number, 0, size - count));
  llvm::SetVector<StringAttr> symbols;
  at.collectSymbols(symbols);
  if (symbols.size() != 1)
    return std::nullopt;
  auto iterations = importer.iterations.find(symbols[0].getValue());
  std::optional<int64_t> first =
      (at - Dim::symbol(shared.context, symbols[0].getValue())).asConstant();
  if (iterations == importer.iterations.end() || !first || *first < 0 ||
      *first + iterations->second - 1 > size - count)
    return std::nullopt;
  return at;
}

Value HloNode::slicedAt(Value x, ArrayRef<Value> starts,
                        ArrayRef<int64_t> sizes) {
  if (!x || failed())
    return {};
  Type i64 = b.getI64Type();
  SmallVector<int64_t> own = shape(x);
  for (size_t i = 0; i < own.size() && x; ++i) {
    if (sizes[i] < 0 || sizes[i] > own[i]) {
      (void)damaged("takes " + Twine(sizes[i]) + " of " + Twine(own[i]) +
                    " elements");
      return {};
    }
    if (sizes[i] == own[i])
      continue;
    if (std::optional<Dim> at = knownStart(starts[i], own[i], sizes[i])) {
      x = sliceDim(x, static_cast<int64_t>(i), *at, dim(sizes[i]));
      continue;
    }
    Value start = binary<ts::MinOp>(
        binary<ts::MaxOp>(asIndex(starts[i]), integerScalar(0, i64)),
        integerScalar(own[i] - sizes[i], i64));
    Value index = add(iota({sizes[i]}, 0, i64), start);
    x = make<ts::GatherOp>(x, index, uint64_t(i));
  }
  return x;
}

Value HloNode::asIndex(Value value) {
  Type i64 = b.getI64Type();
  if (!value)
    return {};
  if (!isa<IntegerType>(ts::elementTypeOf(value))) {
    (void)damaged("an index is no integer");
    return {};
  }
  // What exceeds i64 exceeds every tensor.
  if (ts::elementTypeOf(value).isUnsignedInteger(64))
    value = binary<ts::MinOp>(value,
                              integerScalar(std::numeric_limits<int64_t>::max(),
                                            ts::elementTypeOf(value)));
  return convert(value, i64);
}

} // namespace knapper
