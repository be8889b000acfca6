// Branches, and what all control flow shares. What the sizes decide is decided
// here; all else becomes ts.if and ts.loop over functions.
#include "frontends/onnx/ControlFlowBodies.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

OnnxScope innerScope(Node &n, StringRef part) {
  OnnxScope inner;
  inner.parent = &n.scope;
  inner.body = n.scope.body;
  inner.prefix = n.name + "/" + part.str() + "/";
  inner.depth = n.scope.depth + 1;
  for (auto &entry : n.scope.opsets)
    inner.opsets.insert({entry.first(), entry.second});
  for (auto &entry : n.scope.attributes)
    inner.attributes.insert({entry.first(), entry.second});
  return inner;
}

bool isTensor(Value value) {
  return value && isa<RankedTensorType>(value.getType());
}

Value scalarCondition(Node &n, Value value) {
  if (!value)
    return {};
  if (!isTensor(value) || !llvm::all_of(ts::dimsOf(value), [](Dim dim) {
        return dim.isConstant(1);
      })) {
    (void)n.fail("the condition must be one boolean", "give a scalar");
    return {};
  }
  if (!ts::elementTypeOf(value).isInteger(1)) {
    (void)n.fail("the condition must be boolean", "give a boolean");
    return {};
  }
  return n.reshape(value, {});
}

std::optional<bool> knownCondition(Node &n, Value value) {
  std::optional<SmallVector<Dim>> known = n.importer.sizes(value);
  if (!known || known->size() != 1 || !(*known)[0].asConstant())
    return std::nullopt;
  return *(*known)[0].asConstant() != 0;
}

LogicalResult giveAll(Node &n, ArrayRef<Value> results) {
  for (auto [i, value] : llvm::enumerate(results))
    if (failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

namespace {

using P = ts::ComparePredicate;

/// A condition on sizes alone.
struct SizeComparison {
  Dim lhs;
  P predicate;
  Dim rhs;
};

P negated(P predicate) {
  switch (predicate) {
  case P::eq:
    return P::ne;
  case P::ne:
    return P::eq;
  case P::lt:
    return P::ge;
  case P::ge:
    return P::lt;
  case P::gt:
    return P::le;
  case P::le:
    return P::gt;
  }
  return P::eq;
}

StringRef textOf(P predicate) {
  constexpr StringRef texts[] = {"==", "!=", "<", "<=", ">", ">="};
  constexpr P order[] = {P::eq, P::ne, P::lt, P::le, P::gt, P::ge};
  return texts[llvm::find(order, predicate) - std::begin(order)];
}

std::optional<SizeComparison> sizeComparison(Node &n, Value value) {
  bool negate = false;
  for (;;) {
    if (auto known = n.importer.sizes(value); known && known->size() == 1)
      return SizeComparison{(*known)[0], negate ? P::eq : P::ne, n.dim(0)};
    Operation *op = value.getDefiningOp();
    if (isa_and_present<ts::NotOp>(op))
      negate = !negate;
    if (isa_and_present<ts::NotOp, ts::ConvertOp, ts::ReshapeOp, ts::DimCastOp>(
            op)) {
      value = op->getOperand(0);
      continue;
    }
    auto compare = dyn_cast_if_present<ts::CompareOp>(op);
    if (!compare)
      return std::nullopt;
    auto lhs = n.importer.sizes(compare.getLhs()),
         rhs = n.importer.sizes(compare.getRhs());
    if (!lhs || !rhs || lhs->size() != 1 || rhs->size() != 1)
      return std::nullopt;
    P predicate = compare.getPredicate();
    return SizeComparison{(*lhs)[0], negate ? negated(predicate) : predicate,
                          (*rhs)[0]};
  }
}

/// The results of a branch, in place.
LogicalResult takeBranch(Node &n, bool taken, const onnx::GraphProto &graph) {
  OnnxScope inner = innerScope(n, taken ? "then_branch" : "else_branch");
  Expected<SmallVector<Value>> results = n.importer.importGraph(graph, inner);
  if (!results) {
    n.error = results.takeError();
    return failure();
  }
  if (llvm::is_contained(*results, Value()))
    return n.unsupported("its branch cannot be imported");
  return giveAll(n, *results);
}

struct Branch {
  OnnxBody body;
  SmallVector<Value> results; ///< tensors, or null
  /// A result each: of how many tensors it is a sequence; nothing: a tensor.
  SmallVector<std::optional<size_t>> lengths;
};

/// Results of a function are tensors: sequences are taken apart.
void takeResults(Branch &branch, ArrayRef<Value> results) {
  for (Value value : results) {
    if (!value || !isa<TupleType>(value.getType())) {
      branch.results.push_back(value);
      branch.lengths.push_back(std::nullopt);
      continue;
    }
    llvm::append_range(branch.results, value.getDefiningOp()->getOperands());
    branch.lengths.push_back(value.getDefiningOp()->getNumOperands());
  }
}

/// The node's results of the tensors that a branch gives.
LogicalResult giveResults(Node &n, ArrayRef<std::optional<size_t>> lengths,
                          ArrayRef<Value> tensors) {
  SmallVector<Value> results;
  for (std::optional<size_t> length : lengths) {
    results.push_back(length ? makeSequence(n, tensors.take_front(*length))
                             : tensors.front());
    tensors = tensors.drop_front(length.value_or(1));
  }
  return giveAll(n, results);
}

/// One element, in the rank that the graph declares for it.
Value asDeclared(Node &n, Value value, const onnx::ValueInfoProto &output) {
  const onnx::TypeProto::Tensor &declared = output.type().tensor_type();
  if (!isTensor(value) || !declared.has_shape() ||
      !ts::elementCount(value.getType()).isConstant(1))
    return value;
  return n.reshape(value,
                   SmallVector<Dim>(declared.shape().dim_size(), n.dim(1)));
}

/// `single`: results of one element take the rank that is declared.
Status importBranch(Node &n, StringRef part, const onnx::GraphProto &graph,
                    Branch &branch, bool single) {
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  OnnxScope inner = innerScope(n, part);
  n.importer.beginBody(branch.body, part, n.loc, n.scope.body, {});
  inner.body = &branch.body;
  Expected<SmallVector<Value>> results = n.importer.importGraph(graph, inner);
  if (!results) {
    n.importer.endBody(branch.body, {}, at);
    return results.takeError();
  }
  if (single)
    for (auto [i, value] : llvm::enumerate(*results))
      value = asDeclared(n, value, graph.output(static_cast<int>(i)));
  takeResults(branch, *results);
  bool complete = llvm::all_of(branch.results, isTensor);
  n.importer.endBody(
      branch.body,
      complete ? ArrayRef<Value>(branch.results) : ArrayRef<Value>(), at);
  return success();
}

std::string textOf(const Branch &branch) {
  std::string text;
  ArrayRef<Value> tensors = branch.results;
  auto next = [&] {
    Value value = tensors.consume_front();
    text += isTensor(value) ? ts::shapeText(value.getType()) : "no tensor";
  };
  for (std::optional<size_t> length : branch.lengths) {
    if (!text.empty())
      text += ", ";
    if (!length) {
      next();
      continue;
    }
    text += "a sequence of " + std::to_string(*length);
    for (size_t i = 0; i < *length; ++i) {
      text += i ? ", " : ": ";
      next();
    }
  }
  return text;
}

/// What both branches give, with fresh symbols where they differ; nothing when
/// no one type can hold both.
std::optional<SmallVector<Type>> commonTypes(Node &n, const Branch &yes,
                                             const Branch &no,
                                             SmallVector<Attribute> &symbols) {
  SmallVector<Type> types;
  if (yes.lengths != no.lengths)
    return std::nullopt;
  for (auto [a, b] : llvm::zip(yes.results, no.results)) {
    if (!isTensor(a) || !isTensor(b) || ts::rankOf(a) != ts::rankOf(b) ||
        ts::elementTypeOf(a) != ts::elementTypeOf(b))
      return std::nullopt;
    SmallVector<Dim> dims;
    for (auto [x, y] : llvm::zip(ts::dimsOf(a), ts::dimsOf(b))) {
      dims.push_back(x == y ? x : n.importer.freshSymbol("branch"));
      if (!(x == y))
        symbols.push_back(n.b.getStringAttr(*dims.back().asSymbol()));
    }
    types.push_back(
        ts::tensorType(n.importer.context, dims, ts::elementTypeOf(a)));
  }
  return types;
}

LogicalResult importIf(Node &n) {
  const onnx::GraphProto *yes = n.graph("then_branch"),
                         *no = n.graph("else_branch");
  if (!yes || !no)
    return n.fail(Twine("has no ") + (yes ? "else_branch" : "then_branch"),
                  "export the model again");
  for (const onnx::GraphProto *graph : {yes, no})
    if (graph->output_size() != static_cast<int>(n.resultCount()))
      return n.fail(Twine(graph == yes ? "then_branch" : "else_branch") +
                        " gives " + Twine(graph->output_size()) +
                        " results of " + Twine(n.resultCount()),
                    "export the model again");
  Value condition = scalarCondition(n, n[0]);
  if (!condition)
    return failure();
  if (std::optional<bool> known = knownCondition(n, condition))
    return takeBranch(n, *known, *known ? *yes : *no);

  Importer::Mark before = n.importer.mark();
  Branch first, second;
  Status status = success();
  std::optional<SizeComparison> sizes = sizeComparison(n, condition);
  SmallVector<Attribute> symbols;
  std::optional<SmallVector<Type>> types;
  std::string given; // by the branches, where they differ
  // A number may be [] in one branch and [1] in the other.
  for (bool single : {false, true}) {
    first = Branch();
    second = Branch();
    status = importBranch(n, "then_branch", *yes, first, single);
    if (status)
      status = importBranch(n, "else_branch", *no, second, single);
    if (!status)
      break;
    bool missing = n.importer.problems.size() > before.problems;
    types = commonTypes(n, first, second, symbols);
    if (status && !types)
      given = textOf(first) + " and " + textOf(second);
    if (!types && missing && !sizes)
      return n.unsupported("its branch cannot be imported");
    if (types || sizes || single)
      break;
    symbols.clear();
    n.importer.rewind(before);
  }
  if (types) {
    auto op = ts::IfOp::create(
        n.b, n.loc, *types, condition, SymbolRefAttr::get(first.body.function),
        SymbolRefAttr::get(second.body.function), first.body.captures,
        second.body.captures, n.b.getArrayAttr(symbols));
    return giveResults(n, first.lengths, SmallVector<Value>(op.getResults()));
  }
  n.importer.rewind(before);
  if (!sizes) {
    if (!status)
      n.error = status.takeError();
    return n.unsupported("its branches give " + Twine(given) +
                         ", and the condition depends on data");
  }
  // Only one branch can be right for what follows; the run checks it.
  bool taken = n.importer.guess();
  P predicate = taken ? sizes->predicate : negated(sizes->predicate);
  ts::CheckOp::create(
      n.b, n.loc, sizes->lhs.attr(), predicate, sizes->rhs.attr(),
      "the model was compiled for sizes where " + sizes->lhs.str() + " " +
          textOf(predicate).str() + " " + sizes->rhs.str());
  return takeBranch(n, taken, taken ? *yes : *no);
}

constexpr OpRow rows[] = {
    {"", "If", 1, 1, 1, importIf},
    {"", "Loop", 1, 0, anyNumber, importLoop},
    {"", "Scan", 8, 0, anyNumber, importBatchedScan, 8},
    {"", "Scan", 9, 1, anyNumber, importScan},
};

} // namespace

ArrayRef<OpRow> controlRows() { return rows; }

} // namespace knapper
