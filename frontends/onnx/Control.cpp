// Branches and loops. What the sizes decide is decided here; all else becomes
// ts.if and ts.loop over functions.
#include "frontends/onnx/Control.h"
#include "ir/tensor/Control.h"

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

namespace {

using P = ts::ComparePredicate;

bool isTensor(Value value) {
  return value && isa<RankedTensorType>(value.getType());
}

/// One boolean, as a 0-d tensor.
Value scalarCondition(Node &n, Value value) {
  if (!value)
    return {};
  for (Dim dim : ts::dimsOf(value))
    if (!dim.isConstant(1)) {
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

//===----------------------------------------------------------------------===//
// If
//===----------------------------------------------------------------------===//

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
  for (auto [i, value] : llvm::enumerate(*results)) {
    if (!value)
      return n.unsupported("its branch cannot be imported");
    if (failed(n.out(value, i)))
      return failure();
  }
  return mlir::success();
}

struct Branch {
  OnnxBody body;
  SmallVector<Value> results;
};

Status importBranch(Node &n, StringRef part, const onnx::GraphProto &graph,
                    Branch &branch) {
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  OnnxScope inner = innerScope(n, part);
  n.importer.beginBody(branch.body, part, n.loc, n.scope.body, {});
  inner.body = &branch.body;
  Expected<SmallVector<Value>> results = n.importer.importGraph(graph, inner);
  if (!results) {
    n.importer.endBody(branch.body, {}, at);
    return results.takeError();
  }
  branch.results = *results;
  bool complete = llvm::all_of(branch.results, isTensor);
  n.importer.endBody(
      branch.body,
      complete ? ArrayRef<Value>(branch.results) : ArrayRef<Value>(), at);
  return success();
}

/// What both branches give, with fresh symbols where they differ; nothing when
/// no one type can hold both.
std::optional<SmallVector<Type>> commonTypes(Node &n, ArrayRef<Value> yes,
                                             ArrayRef<Value> no,
                                             SmallVector<Attribute> &symbols) {
  SmallVector<Type> types;
  for (auto [a, b] : llvm::zip(yes, no)) {
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
  Status status = importBranch(n, "then_branch", *yes, first);
  if (status)
    status = importBranch(n, "else_branch", *no, second);
  std::optional<SizeComparison> sizes = sizeComparison(n, condition);
  SmallVector<Attribute> symbols;
  std::optional<SmallVector<Type>> types;
  if (status) {
    bool missing = n.importer.problems.size() > before.problems;
    types = commonTypes(n, first.results, second.results, symbols);
    if (!types && missing && !sizes)
      return n.unsupported("its branch cannot be imported");
  }
  if (types) {
    auto op = ts::IfOp::create(
        n.b, n.loc, *types, condition, SymbolRefAttr::get(first.body.function),
        SymbolRefAttr::get(second.body.function), first.body.captures,
        second.body.captures, n.b.getArrayAttr(symbols));
    for (auto [i, result] : llvm::enumerate(op.getResults()))
      if (failed(n.out(result, i)))
        return failure();
    return mlir::success();
  }
  n.importer.rewind(before);
  if (!sizes) {
    if (!status)
      n.error = status.takeError();
    return n.unsupported("its branches give other ranks or element types, and "
                         "the condition depends on data");
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

//===----------------------------------------------------------------------===//
// Loops of any kind
//===----------------------------------------------------------------------===//

/// Symbols that the ops of a body set.
void collectSet(func::FuncOp body, llvm::SetVector<StringAttr> &symbols) {
  for (func::FuncOp function : ts::withBodies(body))
    function.walk([&](Operation *op) {
      for (StringAttr symbol : ts::symbolsSetBy(op))
        symbols.insert(symbol);
    });
}

} // namespace

// Carried sizes that change from turn to turn become symbols, found by building
// the body again.
std::optional<SmallVector<Value>> buildLoop(Node &n, const LoopShape &shape,
                                            BuildTurn build) {
  Importer &importer = n.importer;
  Importer::Mark before = importer.mark();
  SmallVector<SmallVector<Dim>> dims;
  for (Value value : shape.carried)
    dims.push_back(ts::dimsOf(value));
  std::vector<SmallVector<bool>> varies;
  for (const auto &list : dims)
    varies.emplace_back(list.size(), false);
  for (;;) {
    SmallVector<Type> types;
    SmallVector<Attribute> symbols;
    llvm::SetVector<StringAttr> changing;
    for (size_t i = 0; i < dims.size(); ++i) {
      for (size_t d = 0; d < dims[i].size(); ++d)
        if (varies[i][d]) {
          dims[i][d] = importer.freshSymbol("carried");
          changing.insert(n.b.getStringAttr(*dims[i][d].asSymbol()));
        }
      types.push_back(ts::tensorType(importer.context, dims[i],
                                     ts::elementTypeOf(shape.carried[i])));
    }
    for (StringAttr symbol : changing)
      symbols.push_back(symbol);
    Dim counter = importer.freshSymbol("turn");
    OnnxBody body;
    importer.beginBody(body, "loop", n.loc, shape.around->body, types);
    SmallVector<Value> arguments(body.function.getArguments());
    Turn turn;
    if (failed(build(body, counter, arguments, turn)) || n.failed()) {
      importer.endBody(body, {}, before.at);
      return std::nullopt;
    }
    bool changed = false;
    for (auto [i, value] : llvm::enumerate(turn.carried)) {
      if (ts::elementTypeOf(value) != ts::elementTypeOf(shape.carried[i]) ||
          ts::rankOf(value) != ts::rankOf(shape.carried[i])) {
        std::string text = "carried value " + std::to_string(i) + " is " +
                           ts::shapeText(shape.carried[i].getType()) +
                           " and becomes " + ts::shapeText(value.getType());
        importer.endBody(body, {}, before.at);
        (void)n.unsupported(text);
        return std::nullopt;
      }
      for (auto [d, dim] : llvm::enumerate(ts::dimsOf(value)))
        if (!(dim == dims[i][d]) && !varies[i][d])
          changed = varies[i][d] = true;
    }
    if (changed) {
      importer.endBody(body, {}, before.at);
      importer.rewind(before);
      continue;
    }
    SmallVector<Value> returned;
    Value condition = shape.condition;
    if (turn.condition) {
      returned.push_back(turn.condition);
      importer.b.restoreInsertionPoint(before.at);
      if (!condition)
        condition = n.integerScalar(1, n.b.getI1Type());
      importer.b.setInsertionPointToEnd(&body.function.getBody().front());
    } else if (condition) { // tested once: stays true
      returned.push_back(n.integerScalar(1, n.b.getI1Type()));
    }
    llvm::append_range(returned, turn.carried);
    llvm::append_range(returned, turn.scans);
    importer.endBody(body, returned, before.at);
    llvm::SetVector<StringAttr> inner = changing;
    collectSet(body.function, inner);
    inner.insert(n.b.getStringAttr(*counter.asSymbol()));
    std::optional<Dim> rows = shape.trips;
    StringAttr count;
    if (condition && !turn.scans.empty()) {
      rows = importer.freshSymbol("turns");
      count = n.b.getStringAttr(*rows->asSymbol());
    }
    for (Value scan : turn.scans) {
      SmallVector<Dim> all{*rows};
      for (Dim dim : ts::dimsOf(scan)) {
        llvm::SetVector<StringAttr> used;
        dim.collectSymbols(used);
        if (llvm::any_of(used,
                         [&](StringAttr s) { return inner.contains(s); })) {
          (void)n.unsupported("a value that is collected over the loop changes "
                              "its size, " +
                              ts::shapeText(scan.getType()));
          return std::nullopt;
        }
        all.push_back(dim);
      }
      types.push_back(
          ts::tensorType(importer.context, all, ts::elementTypeOf(scan)));
    }
    SmallVector<Value> carried;
    for (auto [i, value] : llvm::enumerate(shape.carried))
      carried.push_back(value);
    auto op = ts::LoopOp::create(
        n.b, n.loc, types, SymbolRefAttr::get(body.function),
        n.b.getStringAttr(*counter.asSymbol()),
        shape.trips ? shape.trips->attr() : ts::DimAttr(), condition, carried,
        body.captures, count, n.b.getArrayAttr(symbols),
        n.b.getDenseBoolArrayAttr(shape.reversed));
    return SmallVector<Value>(op.getResults());
  }
}

namespace {

//===----------------------------------------------------------------------===//
// Loop
//===----------------------------------------------------------------------===//

constexpr int64_t endless = int64_t(1) << 40;
constexpr int64_t maxUnrolled = 256;

struct LoopNode {
  const onnx::GraphProto *graph = nullptr;
  size_t carried = 0;

  Status importTurn(Node &n, OnnxScope &scope, Value number,
                    ArrayRef<Value> state, SmallVector<Value> &results) const {
    scope.values[graph->input(0).name()] = number;
    scope.values[graph->input(1).name()] =
        n.integerScalar(1, n.b.getI1Type()); // or it would not run
    for (size_t i = 0; i < carried; ++i)
      scope.values[graph->input(static_cast<int>(i) + 2).name()] = state[i];
    Expected<SmallVector<Value>> values = n.importer.importGraph(*graph, scope);
    if (!values)
      return values.takeError();
    results = *values;
    return success();
  }
};

/// Turn by turn, for sequences: those exist while importing only.
LogicalResult unrollLoop(Node &n, const LoopNode &loop,
                         std::optional<Dim> trips, Value condition,
                         SmallVector<Value> state) {
  std::optional<bool> more =
      condition ? knownCondition(n, condition) : std::optional<bool>(true);
  std::optional<int64_t> count =
      trips ? trips->asConstant() : std::optional<int64_t>(endless);
  if (!more || !count)
    return n.unsupported("it carries a sequence, and how often it runs depends "
                         "on data or sizes");
  std::vector<SmallVector<Value>> scans(n.resultCount() - loop.carried);
  for (int64_t i = 0; i < *count && *more; ++i) {
    if (i == maxUnrolled)
      return n.unsupported("it carries a sequence for more than " +
                           Twine(maxUnrolled) + " turns");
    OnnxScope scope = innerScope(n, "turn" + std::to_string(i));
    SmallVector<Value> results;
    Status status = loop.importTurn(
        n, scope, n.integerScalar(i, n.b.getI64Type()), state, results);
    if (!status) {
      n.error = status.takeError();
      return failure();
    }
    if (llvm::any_of(results, [](Value value) { return !value; }))
      return n.unsupported("its body cannot be imported");
    more = knownCondition(n, results[0]);
    if (!more)
      return n.unsupported("it carries a sequence, and its condition depends "
                           "on data");
    state.assign(results.begin() + 1, results.begin() + 1 + loop.carried);
    for (size_t s = 0; s < scans.size(); ++s)
      scans[s].push_back(results[1 + loop.carried + s]);
  }
  for (auto [i, value] : llvm::enumerate(state))
    if (failed(n.out(value, i)))
      return failure();
  for (auto [s, rows] : llvm::enumerate(scans)) {
    if (rows.empty())
      return n.unsupported("what it collects has no turn to tell its type");
    SmallVector<Value> parts;
    for (Value row : rows) {
      SmallVector<Dim> dims{n.dim(1)};
      llvm::append_range(dims, ts::dimsOf(row));
      parts.push_back(n.reshape(row, dims));
    }
    if (failed(n.out(n.make<ts::ConcatOp>(ValueRange(parts), int64_t(0)),
                     loop.carried + s)))
      return failure();
  }
  return mlir::success();
}

LogicalResult importLoop(Node &n) {
  LoopNode loop;
  loop.graph = n.graph("body");
  if (!loop.graph)
    return n.fail("has no body", "export the model again");
  loop.carried = n.size() > 2 ? n.size() - 2 : 0;
  const onnx::GraphProto &graph = *loop.graph;
  auto carried = static_cast<int>(loop.carried);
  if (graph.input_size() != carried + 2 ||
      graph.output_size() != static_cast<int>(n.resultCount()) + 1 ||
      graph.output_size() < carried + 1)
    return n.fail("its body has " + Twine(graph.input_size()) + " inputs and " +
                      Twine(graph.output_size()) + " outputs for " +
                      Twine(carried) + " carried values and " +
                      Twine(n.resultCount()) + " results",
                  "export the model again");
  LoopShape shape;
  shape.around = &n.scope;
  for (size_t i = 2; i < n.size(); ++i) {
    if (!n[i])
      return n.fail("a carried value is missing", "give every one");
    shape.carried.push_back(n[i]);
  }
  shape.reversed.assign(n.resultCount() - loop.carried, false);
  if (Value condition = n[1]) {
    condition = scalarCondition(n, condition);
    if (!condition)
      return failure();
    std::optional<bool> known = knownCondition(n, condition);
    if (known && !*known)
      shape.trips = n.dim(0);
    else if (!known)
      shape.condition = condition;
  }
  if (n.has(0) && !shape.trips) {
    std::optional<SmallVector<Dim>> known = n.importer.sizes(n[0]);
    if (known && known->size() == 1) {
      std::optional<int64_t> number = (*known)[0].asConstant();
      if (!number)
        shape.trips = (*known)[0].max(n.dim(0));
      else if (*number < endless)
        shape.trips = n.dim(std::max<int64_t>(*number, 0));
    } else {
      // Read when the loop is reached.
      Value number = n.reshape(n.convert(n[0], n.b.getI64Type()), {});
      number =
          n.binary<ts::MaxOp>(number, n.integerScalar(0, n.b.getI64Type()));
      if (!number)
        return failure();
      Dim trips = n.importer.freshSymbol("trips");
      ts::BindSizeOp::create(n.b, n.loc, number, *trips.asSymbol());
      shape.trips = trips;
    }
  }
  if (!llvm::all_of(shape.carried, isTensor))
    return unrollLoop(n, loop, shape.trips, shape.condition, shape.carried);

  std::optional<SmallVector<Value>> results = buildLoop(
      n, shape,
      [&](OnnxBody &body, Dim counter, ArrayRef<Value> state, Turn &turn) {
        OnnxScope scope = innerScope(n, "body");
        scope.body = &body;
        SmallVector<Value> values;
        Status status = loop.importTurn(
            n, scope, n.sizeScalar(counter, n.b.getI64Type()), state, values);
        if (!status) {
          n.error = status.takeError();
          return failure();
        }
        if (!llvm::all_of(values, isTensor))
          return n.unsupported("its body cannot be imported");
        Value condition = scalarCondition(n, values[0]);
        if (!condition)
          return failure();
        std::optional<bool> known = knownCondition(n, condition);
        if (!known || !*known)
          turn.condition = condition;
        turn.carried.assign(values.begin() + 1,
                            values.begin() + 1 + loop.carried);
        turn.scans.assign(values.begin() + 1 + loop.carried, values.end());
        if (!shape.trips && !turn.condition && !shape.condition)
          return n.unsupported("it never ends");
        return mlir::success();
      });
  if (!results)
    return failure();
  for (auto [i, value] : llvm::enumerate(*results))
    if (failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

struct ScanNode {
  const onnx::GraphProto *graph = nullptr;
  size_t states = 0, inputs = 0, outputs = 0;
  SmallVector<int64_t> inputAxes, inputDirections, outputAxes, outputDirections;
};

SmallVector<int64_t> listOf(Node &n, StringRef name, size_t count) {
  SmallVector<int64_t> list = n.integers(name);
  if (list.empty())
    list.assign(count, 0);
  if (list.size() != count)
    (void)n.fail(name + " has " + Twine(list.size()) + " entries of " +
                     Twine(count),
                 "correct the attribute");
  return list;
}

/// One scan over all of `inputs`, which are values where `around` is. Results:
/// states, then outputs.
std::optional<SmallVector<Value>> scanOnce(Node &n, const ScanNode &scan,
                                           OnnxScope &around,
                                           ArrayRef<Value> states,
                                           ArrayRef<Value> inputs) {
  SmallVector<int64_t> axes;
  Dim trips = n.dim(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    int64_t rank = ts::rankOf(inputs[i]);
    axes.push_back(n.normalAxis(scan.inputAxes[i], rank));
    if (n.failed() || rank == 0)
      return std::nullopt;
    Dim size = ts::dimOf(inputs[i], axes[i]);
    if (i == 0 || (trips.isSymbolic() && size.asConstant()))
      trips = size;
  }
  SmallVector<Value> checked;
  for (auto [value, axis] : llvm::zip(inputs, axes)) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    dims[axis] = trips;
    checked.push_back(n.castDims(value, dims));
    if (!checked.back())
      return std::nullopt;
  }
  LoopShape shape;
  shape.around = &around;
  shape.trips = trips;
  shape.carried.assign(states.begin(), states.end());
  for (int64_t direction : scan.outputDirections)
    shape.reversed.push_back(direction != 0);
  std::optional<SmallVector<Value>> results = buildLoop(
      n, shape,
      [&](OnnxBody &body, Dim counter, ArrayRef<Value> state, Turn &turn) {
        OnnxScope scope = innerScope(n, "body");
        scope.parent = &around;
        scope.body = &body;
        int at = 0;
        for (Value value : state)
          scope.values[scan.graph->input(at++).name()] = value;
        for (auto [i, value] : llvm::enumerate(checked)) {
          Value inside = n.importer.capture(body, value);
          Dim from = scan.inputDirections[i] ? trips - 1 - counter : counter;
          SmallVector<Dim> dims = ts::dimsOf(inside);
          dims.erase(dims.begin() + axes[i]);
          scope.values[scan.graph->input(at++).name()] =
              n.reshape(n.sliceDim(inside, axes[i], from, n.dim(1)), dims);
        }
        if (n.failed())
          return failure();
        Expected<SmallVector<Value>> values =
            n.importer.importGraph(*scan.graph, scope);
        if (!values) {
          n.error = values.takeError();
          return failure();
        }
        if (!llvm::all_of(*values, isTensor))
          return n.unsupported("its body cannot be imported");
        turn.carried.assign(values->begin(), values->begin() + states.size());
        turn.scans.assign(values->begin() + states.size(), values->end());
        return mlir::success();
      });
  if (!results)
    return std::nullopt;
  for (size_t i = 0; i < scan.outputs; ++i) {
    Value &value = (*results)[states.size() + i];
    int64_t rank = ts::rankOf(value),
            axis = n.normalAxis(scan.outputAxes[i], rank);
    SmallVector<int64_t> permutation;
    for (int64_t d = 1; d < rank; ++d)
      permutation.push_back(d);
    if (n.failed())
      return std::nullopt;
    permutation.insert(permutation.begin() + axis, 0);
    value = n.transpose(value, permutation);
  }
  return results;
}

std::optional<ScanNode> scanNode(Node &n, size_t first) {
  ScanNode scan;
  scan.graph = n.graph("body");
  int64_t inputs = n.integer("num_scan_inputs", 0);
  auto count = static_cast<int64_t>(n.size() - first);
  if (!scan.graph || inputs < 1 || inputs > count ||
      scan.graph->input_size() != count ||
      scan.graph->output_size() != static_cast<int>(n.resultCount()) ||
      static_cast<int64_t>(n.resultCount()) < count - inputs) {
    (void)n.fail("its body and num_scan_inputs do not fit its inputs",
                 "export the model again");
    return std::nullopt;
  }
  scan.inputs = inputs;
  scan.states = count - inputs;
  scan.outputs = n.resultCount() - scan.states;
  return scan;
}

LogicalResult importScan(Node &n) {
  std::optional<ScanNode> scan = scanNode(n, 0);
  if (!scan)
    return failure();
  scan->inputAxes = listOf(n, "scan_input_axes", scan->inputs);
  scan->inputDirections = listOf(n, "scan_input_directions", scan->inputs);
  scan->outputAxes = listOf(n, "scan_output_axes", scan->outputs);
  scan->outputDirections = listOf(n, "scan_output_directions", scan->outputs);
  if (n.failed())
    return failure();
  std::optional<SmallVector<Value>> results =
      scanOnce(n, *scan, n.scope, n.all().take_front(scan->states),
               n.all().drop_front(scan->states));
  if (!results)
    return failure();
  for (auto [i, value] : llvm::enumerate(*results))
    if (failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

/// Opset 8: a scan for each element of the batch that all inputs begin with.
LogicalResult importBatchedScan(Node &n) {
  if (n.has(0))
    return n.unsupported("sequence_lens");
  if (n.size() < 2 ||
      llvm::any_of(n.all().drop_front(), [](Value value) { return !value; }))
    return n.fail("has too few inputs", "export the model again");
  std::optional<ScanNode> scan = scanNode(n, 1);
  if (!scan)
    return failure();
  scan->inputAxes.assign(scan->inputs, 0);
  scan->outputAxes.assign(scan->outputs, 0);
  scan->inputDirections = listOf(n, "directions", scan->inputs);
  scan->outputDirections.assign(scan->outputs, 0);
  for (Value value : n.all().drop_front())
    if (ts::rankOf(value) == 0)
      return n.fail("an input has no batch dim", "give one");
  if (n.failed())
    return failure();
  LoopShape shape;
  shape.around = &n.scope;
  shape.trips = ts::dimOf(n[1], 0);
  shape.reversed.assign(n.resultCount(), false);
  SmallVector<Value> values;
  for (Value value : n.all().drop_front()) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    dims[0] = *shape.trips;
    values.push_back(n.castDims(value, dims));
  }
  if (n.failed())
    return failure();
  std::optional<SmallVector<Value>> results = buildLoop(
      n, shape, [&](OnnxBody &body, Dim counter, ArrayRef<Value>, Turn &turn) {
        SmallVector<Value> one;
        for (Value value : values) {
          Value inside = n.importer.capture(body, value);
          SmallVector<Dim> dims = ts::dimsOf(inside);
          dims.erase(dims.begin());
          one.push_back(
              n.reshape(n.sliceDim(inside, 0, counter, n.dim(1)), dims));
        }
        if (n.failed())
          return failure();
        OnnxScope batch = innerScope(n, "batch");
        batch.body = &body;
        std::optional<SmallVector<Value>> inner =
            scanOnce(n, *scan, batch, ArrayRef(one).take_front(scan->states),
                     ArrayRef(one).drop_front(scan->states));
        if (!inner)
          return failure();
        turn.scans = *inner;
        return mlir::success();
      });
  if (!results)
    return failure();
  for (auto [i, value] : llvm::enumerate(*results))
    if (failed(n.out(value, i)))
      return failure();
  return mlir::success();
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
