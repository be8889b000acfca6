// Control flow of torch: branches, while and scan.
#include "frontends/torch/AtenImporter.h"
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Whether all symbols of a size have values here.
bool isBound(AtenNode &n, Dim dim) {
  llvm::SetVector<StringAttr> used;
  dim.collectSymbols(used);
  return llvm::all_of(
      used, [&](StringAttr name) { return n.importer.isBound(name); });
}

/// A graph's results; nothing after an error or where something is missing.
std::optional<SmallVector<Value>> imported(AtenNode &n, size_t index,
                                           ArrayRef<Value> inputs) {
  const llvm::json::Object *graph = n.graph(index);
  if (!graph)
    return std::nullopt;
  std::optional<SmallVector<Value>> results =
      n.importer.importGraph(n, *graph, inputs);
  if (!results || llvm::is_contained(*results, Value()))
    return std::nullopt;
  return results;
}

/// A condition, one boolean, as a 0-d tensor.
Value condition(AtenNode &n, Value value) {
  if (!value)
    return {};
  if (ts::elementTypeOf(value).isInteger(1) &&
      ts::elementCount(value.getType()).isConstant(1))
    return n.reshape(value, {});
  (void)n.unsupported("a condition that is not one boolean");
  return {};
}

/// The value in the type of another, whose sizes the run checks.
Value fitted(AtenNode &n, Value value, Type type) {
  if (!value)
    return {};
  auto wanted = cast<RankedTensorType>(type);
  if (ts::elementTypeOf(value) == wanted.getElementType() &&
      ts::rankOf(value) == wanted.getRank())
    return n.castDims(value, ts::dimsOf(wanted));
  (void)n.unsupported("graphs whose results have other dtypes or ranks");
  return {};
}

LogicalResult giveAll(AtenNode &n, ValueRange results) {
  for (auto [i, value] : llvm::enumerate(results))
    if (n.element(i) && mlir::failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// cond
//===----------------------------------------------------------------------===//

/// Ends a body with its results, or with none where one is missing: then false.
bool endBody(AtenNode &n, GraphBody &body, ArrayRef<Value> returned,
             size_t wanted, OpBuilder::InsertPoint at) {
  bool whole = returned.size() == wanted && !n.failed() &&
               !llvm::is_contained(returned, Value());
  n.importer.endBody(body, whole ? returned : ArrayRef<Value>(), at);
  return whole;
}

/// A branch as a function whose arguments are what it captures.
bool buildBranch(AtenNode &n, size_t index, ArrayRef<Value> operands,
                 ArrayRef<Type> types, GraphBody &body) {
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  n.importer.beginBodyHere(body, "branch", n.loc, {});
  SmallVector<Value> inputs, returned;
  for (Value operand : operands)
    inputs.push_back(n.importer.capture(body, operand));
  if (std::optional<SmallVector<Value>> results = imported(n, index, inputs)) {
    if (results->size() == types.size())
      for (auto [value, type] : llvm::zip(*results, types))
        returned.push_back(fitted(n, value, type));
    else
      (void)n.unsupported("branches with other numbers of results");
  }
  return endBody(n, body, returned, types.size(), at);
}

LogicalResult importCond(AtenNode &n) {
  Value chosen = n.isTensor("pred") ? condition(n, n.tensor("pred")) : Value();
  if (!chosen)
    return n.failed() ? failure()
                      : n.unsupported("a condition that is no tensor");
  SmallVector<Value> operands = n.tensors("operands");
  SmallVector<Type> types;
  for (size_t i = 0; i < n.resultCount(); ++i) {
    if (!n.element(i))
      return n.unsupported("a result that is no tensor");
    if (!llvm::all_of(n.dims(i), [&](Dim dim) { return isBound(n, dim); }))
      return n.unsupported("branches whose results have other sizes");
    types.push_back(n.type(n.dims(i), n.element(i)));
    if (!types.back())
      return failure();
  }
  // Both are built, so that all that is missing is told at once.
  GraphBody yes, no;
  bool right = buildBranch(n, 0, operands, types, yes);
  right = buildBranch(n, 1, operands, types, no) && right;
  if (!right)
    return failure();
  auto op = ts::IfOp::create(n.b, n.loc, types, chosen,
                             SymbolRefAttr::get(yes.function),
                             SymbolRefAttr::get(no.function), yes.captures,
                             no.captures, n.b.getArrayAttr({}));
  return giveAll(n, op.getResults());
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// What the iterations of a loop begin with: `carried` as arguments of the
/// body, then its captures of `rest`.
SmallVector<Value> beginLoop(AtenNode &n, GraphBody &body,
                             ArrayRef<Value> carried, ArrayRef<Value> rest) {
  SmallVector<Type> types;
  for (Value value : carried)
    types.push_back(value.getType());
  n.importer.beginBodyHere(body, "loop", n.loc, types);
  SmallVector<Value> inputs;
  for (size_t i = 0; i < types.size(); ++i)
    inputs.push_back(body.function.getArgument(i));
  for (Value value : rest)
    inputs.push_back(n.importer.capture(body, value));
  return inputs;
}

/// Graphs: the condition before the first iteration, the body, the condition
/// after an iteration.
LogicalResult importWhile(AtenNode &n) {
  SmallVector<Value> carried = n.tensors("carried"), rest = n.tensors("rest");
  SmallVector<Value> inputs = carried;
  inputs.append(rest);
  std::optional<SmallVector<Value>> first = imported(n, 0, inputs);
  Value begins =
      first && first->size() == 1 ? condition(n, first->front()) : Value();
  GraphBody body;
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  inputs = beginLoop(n, body, carried, rest);
  SmallVector<Value> returned;
  if (std::optional<SmallVector<Value>> next = imported(n, 1, inputs);
      next && next->size() == carried.size()) {
    for (auto [value, before] : llvm::zip(*next, carried)) {
      value = fitted(n, value, before.getType());
      returned.push_back(value);
    }
    if (!n.failed()) {
      SmallVector<Value> after = returned;
      for (size_t i = carried.size(); i < inputs.size(); ++i)
        after.push_back(inputs[i]);
      std::optional<SmallVector<Value>> again = imported(n, 2, after);
      returned.insert(returned.begin(), again && again->size() == 1
                                            ? condition(n, again->front())
                                            : Value());
    }
  }
  if (!endBody(n, body, returned, carried.size() + 1, at) || !begins)
    return failure();
  SmallVector<Type> types;
  for (Value value : carried)
    types.push_back(value.getType());
  Dim iteration = n.shared.freshSymbol("iteration");
  auto op = ts::LoopOp::create(
      n.b, n.loc, types, SymbolRefAttr::get(body.function),
      n.b.getStringAttr(*iteration.asSymbol()), ts::DimAttr(), begins, carried,
      body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  return giveAll(n, op.getResults());
}

/// Slices along dim 0 go in, what comes of them is joined along it.
LogicalResult importScan(AtenNode &n) {
  SmallVector<Value> carried = n.tensors("init"), sliced = n.tensors("xs"),
                     rest = n.tensors("rest");
  if (sliced.empty() || ts::rankOf(sliced.front()) == 0)
    return n.unsupported("a scan over nothing");
  Dim trips = ts::dimOf(sliced.front(), 0);
  for (Value &value : sliced) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    dims.front() = trips;
    value = n.castDims(value, dims);
  }
  if (n.failed())
    return failure();
  Dim iteration = n.shared.freshSymbol("iteration");
  GraphBody body;
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  SmallVector<Value> inputs = beginLoop(n, body, carried, {});
  for (Value value : sliced) {
    Value inside = n.importer.capture(body, value);
    SmallVector<Dim> dims = ts::dimsOf(inside);
    dims.erase(dims.begin());
    inputs.push_back(
        n.reshape(n.sliceDim(inside, 0, iteration, n.dim(1)), dims));
  }
  for (Value value : rest)
    inputs.push_back(n.importer.capture(body, value));
  SmallVector<Value> returned;
  if (!n.failed())
    if (std::optional<SmallVector<Value>> next = imported(n, 0, inputs);
        next && next->size() >= carried.size()) {
      returned = *next;
      for (auto [i, before] : llvm::enumerate(carried))
        returned[i] = fitted(n, returned[i], before.getType());
    }
  if (!endBody(n, body, returned, n.resultCount(), at))
    return failure();
  SmallVector<Type> types;
  for (auto [i, value] : llvm::enumerate(returned)) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    if (i >= carried.size())
      dims.insert(dims.begin(), trips);
    types.push_back(n.type(dims, ts::elementTypeOf(value)));
    if (!types.back())
      return failure();
  }
  SmallVector<bool> reversed(returned.size() - carried.size(), false);
  auto op = ts::LoopOp::create(
      n.b, n.loc, types, SymbolRefAttr::get(body.function),
      n.b.getStringAttr(*iteration.asSymbol()), trips.attr(), Value(), carried,
      body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr(reversed));
  return giveAll(n, op.getResults());
}

constexpr AtenRow rows[] = {
    {"higher_order.cond", importCond},
    {"higher_order.scan", importScan},
    {"higher_order.while_loop", importWhile},
};

} // namespace

ArrayRef<AtenRow> atenControlRows() { return rows; }

} // namespace knapper
