// Loops of any kind, and the operator Loop.
#include "frontends/onnx/Control.h"
#include "ir/tensor/Control.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Symbols that the ops of a body set.
static void collectSet(func::FuncOp body,
                       llvm::SetVector<StringAttr> &symbols) {
  for (func::FuncOp function : ts::withBodies(body))
    function.walk([&](Operation *op) {
      for (StringAttr symbol : ts::symbolsSetBy(op))
        symbols.insert(symbol);
    });
}

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
  if (failed(giveAll(n, state)))
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

} // namespace

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
  return giveAll(n, *results);
}

} // namespace knapper
