// Sequences and optionals: they exist while a model is imported and are gone
// from what is compiled.
#include "frontends/onnx/RuntimeSizes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

bool takesSequences(StringRef op) {
  return op.starts_with("Sequence") || op.starts_with("Optional") ||
         op == "ConcatFromSequence" || op == "Identity" || op == "Loop";
}

Value makeSequence(Node &n, ArrayRef<Value> elements) {
  Type type =
      TupleType::get(n.importer.context, ValueRange(elements).getTypes());
  return UnrealizedConversionCastOp::create(n.b, n.loc, type, elements)
      .getResult(0);
}

std::optional<SmallVector<Value>> elementsOf(Node &n, Value value) {
  if (!value || !isa<TupleType>(value.getType())) {
    (void)n.fail("an input is no sequence", "export the model again");
    return std::nullopt;
  }
  return SmallVector<Value>(value.getDefiningOp()->getOperands());
}

namespace {

bool isAbsent(Value value) { return !value || isa<NoneType>(value.getType()); }

/// A position in 0 .. size - 1 (0 .. size for an insertion), which has to be
/// known.
std::optional<size_t> position(Node &n, Value value, size_t size,
                               bool insertion) {
  auto count = static_cast<int64_t>(size);
  std::optional<SmallVector<int64_t>> given =
      n.numbers(value, "the position in the sequence");
  if (!given)
    return std::nullopt;
  int64_t at = given->size() == 1 ? (*given)[0] : count + 1;
  int64_t last = insertion ? count : count - 1;
  if (at < -count || at > last) {
    (void)n.fail("position " + Twine(at) + " is outside a sequence of " +
                     Twine(count),
                 "correct the position");
    return std::nullopt;
  }
  return at < 0 ? at + count : at;
}

LogicalResult importConstruct(Node &n) {
  for (Value value : n.all())
    if (!isa<RankedTensorType>(value.getType()))
      return n.fail("an element is no tensor", "export the model again");
  return n.out(makeSequence(n, n.all()));
}

LogicalResult importEmpty(Node &n) { return n.out(makeSequence(n, {})); }

LogicalResult importAt(Node &n) {
  auto elements = elementsOf(n, n[0]);
  if (!elements)
    return failure();
  auto at = position(n, n[1], elements->size(), false);
  return at ? n.out((*elements)[*at]) : failure();
}

LogicalResult importInsert(Node &n) {
  auto elements = elementsOf(n, n[0]);
  if (!elements)
    return failure();
  size_t at = elements->size();
  if (n.has(2)) {
    auto given = position(n, n[2], at, true);
    if (!given)
      return failure();
    at = *given;
  }
  elements->insert(elements->begin() + at, n[1]);
  return n.out(makeSequence(n, *elements));
}

LogicalResult importErase(Node &n) {
  auto elements = elementsOf(n, n[0]);
  if (!elements)
    return failure();
  if (elements->empty())
    return n.fail("the sequence is empty", "give it elements");
  size_t at = elements->size() - 1;
  if (n.has(1)) {
    auto given = position(n, n[1], elements->size(), false);
    if (!given)
      return failure();
    at = *given;
  }
  elements->erase(elements->begin() + at);
  return n.out(makeSequence(n, *elements));
}

LogicalResult importLength(Node &n) {
  auto elements = elementsOf(n, n[0]);
  if (!elements)
    return failure();
  return n.out(n.integerScalar(static_cast<int64_t>(elements->size()),
                               n.b.getI64Type()));
}

LogicalResult importConcat(Node &n) {
  auto elements = elementsOf(n, n[0]);
  if (!elements)
    return failure();
  if (elements->empty())
    return n.fail("the sequence is empty", "give it elements");
  bool fresh = n.flag("new_axis", false);
  int64_t rank = ts::rankOf(elements->front()) + (fresh ? 1 : 0);
  int64_t axis = n.axis("axis", 0, rank);
  for (Value &value : *elements) {
    if (n.failed() || ts::rankOf(value) + (fresh ? 1 : 0) != rank)
      return n.fail("elements differ in rank", "give equal ranks");
    if (!fresh)
      continue;
    SmallVector<Dim> dims = ts::dimsOf(value);
    dims.insert(dims.begin() + axis, n.dim(1));
    value = n.reshape(value, dims);
  }
  // Beside the axis the sizes are equal, by ONNX's rule.
  for (Value &value : *elements) {
    SmallVector<Dim> dims = ts::dimsOf(elements->front());
    dims[axis] = ts::dimOf(value, axis);
    value = n.castDims(value, dims);
    if (!value)
      return failure();
  }
  return n.out(n.make<ts::ConcatOp>(ValueRange(*elements), axis));
}

LogicalResult importSplit(Node &n) {
  int64_t rank = ts::rankOf(n[0]), axis = n.axis("axis", 0, rank);
  if (n.failed())
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]), parts;
  bool drop = !n.has(1) && !n.flag("keepdims", true);
  if (n.has(1) && ts::rankOf(n[1]) == 1) {
    auto sizes = sizesOrSymbols(n, n[1], "the sizes of the parts");
    if (!sizes)
      return failure();
    parts = *sizes;
  } else {
    int64_t each = 1;
    if (n.has(1)) {
      auto number = n.numbers(n[1], "the size of a part");
      if (!number)
        return failure();
      each = number->size() == 1 ? (*number)[0] : 0;
    }
    std::optional<int64_t> size = dims[axis].asConstant();
    if (!size)
      return n.unsupported("the number of parts is not a constant");
    if (each < 1 || *size / each > 1 << 16)
      return n.fail("parts of " + Twine(each) + " of " + Twine(*size),
                    "correct the split");
    for (int64_t at = 0; at < *size; at += each)
      parts.push_back(n.dim(std::min(each, *size - at)));
  }
  Dim at = n.dim(0);
  SmallVector<Value> elements;
  for (Dim part : parts) {
    Value value = n.sliceDim(n[0], axis, at, part);
    if (drop) {
      SmallVector<Dim> rest = dims;
      rest.erase(rest.begin() + axis);
      value = n.reshape(value, rest);
    }
    if (!value)
      return failure();
    elements.push_back(value);
    at = at + part;
  }
  if (std::optional<int64_t> left = (at - dims[axis]).asConstant();
      left && *left != 0)
    return n.fail("the parts have " + at.str() + " of " + dims[axis].str(),
                  "correct the split");
  if (!(at == dims[axis]))
    ts::CheckOp::create(n.b, n.loc, at.attr(), ts::ComparePredicate::eq,
                        dims[axis].attr(),
                        "the parts of a split must have all of the tensor");
  return n.out(makeSequence(n, elements));
}

LogicalResult importMap(Node &n) {
  const onnx::GraphProto *graph = n.graph("body");
  auto first = elementsOf(n, n[0]);
  if (!first)
    return failure();
  if (!graph || graph->input_size() != static_cast<int>(n.size()) ||
      graph->output_size() != static_cast<int>(n.resultCount()))
    return n.fail("its body does not fit its inputs", "export the model again");
  std::vector<SmallVector<Value>> results(n.resultCount());
  for (size_t i = 0; i < first->size(); ++i) {
    OnnxScope scope = innerScope(n, "element" + std::to_string(i));
    for (size_t k = 0; k < n.size(); ++k) {
      Value value = n[k];
      if (isa<TupleType>(value.getType())) {
        auto elements = elementsOf(n, value);
        if (!elements || elements->size() != first->size())
          return n.fail("the sequences differ in length", "give equal ones");
        value = (*elements)[i];
      }
      scope.values[graph->input(static_cast<int>(k)).name()] = value;
    }
    auto values = n.importer.importGraph(*graph, scope);
    if (!values) {
      n.error = values.takeError();
      return failure();
    }
    for (auto [list, value] : llvm::zip(results, *values)) {
      if (!value)
        return n.unsupported("its body cannot be imported");
      list.push_back(value);
    }
  }
  for (auto [i, list] : llvm::enumerate(results))
    if (failed(n.out(makeSequence(n, list), i)))
      return failure();
  return mlir::success();
}

LogicalResult importOptional(Node &n) {
  if (n.has(0))
    return n.out(n[0]);
  return n.out(UnrealizedConversionCastOp::create(n.b, n.loc, n.b.getNoneType(),
                                                  ValueRange())
                   .getResult(0));
}

LogicalResult importHasElement(Node &n) {
  return n.out(n.integerScalar(!isAbsent(n[0]), n.b.getI1Type()));
}

LogicalResult importGetElement(Node &n) {
  if (isAbsent(n[0]))
    return n.fail("the optional is empty", "give it a value");
  return n.out(n[0]);
}

constexpr OpRow rows[] = {
    {"", "ConcatFromSequence", 11, 1, 1, importConcat},
    {"", "Optional", 15, 0, 1, importOptional},
    {"", "OptionalGetElement", 15, 1, 1, importGetElement},
    {"", "OptionalHasElement", 15, 0, 1, importHasElement},
    {"", "SequenceAt", 11, 2, 2, importAt},
    {"", "SequenceConstruct", 11, 1, anyNumber, importConstruct},
    {"", "SequenceEmpty", 11, 0, 0, importEmpty},
    {"", "SequenceErase", 11, 1, 2, importErase},
    {"", "SequenceInsert", 11, 2, 3, importInsert},
    {"", "SequenceLength", 11, 1, 1, importLength},
    {"", "SequenceMap", 17, 1, anyNumber, importMap},
    {"", "SplitToSequence", 11, 1, 2, importSplit},
};

} // namespace

ArrayRef<OpRow> sequenceRows() { return rows; }

} // namespace knapper
