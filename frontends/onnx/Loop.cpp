// Loops of any kind, and the operator Loop.
#include "frontends/onnx/ControlFlowBodies.h"
#include "ir/tensor/BranchesAndLoops.h"

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

/// Whether the value's sizes mean the same before the loop.
static bool isKnownOutside(func::FuncOp body,
                           const llvm::SetVector<StringAttr> &changing,
                           Dim counter, Value value) {
  llvm::SetVector<StringAttr> inner = changing, used;
  collectSet(body, inner);
  for (Dim dim : ts::dimsOf(value))
    dim.collectSymbols(used);
  return llvm::none_of(used, [&](StringAttr symbol) {
    return inner.contains(symbol) || symbol.getValue() == *counter.asSymbol();
  });
}

namespace {

/// Carried integers that grow by the same number each iteration. Inside they
/// are made of the counter, so that what is sliced or sized by them has a size.
/// That is a guess (by 1) until the body is built, which says by how much.
class Counters {
public:
  Counters(Node &n, ArrayRef<Value> carried) : n(n) {
    for (Value value : carried) {
      Type element = ts::elementTypeOf(value);
      std::optional<SmallVector<Dim>> known;
      if ((element.isInteger(32) || element.isInteger(64)) &&
          ts::rankOf(value) <= 1)
        known = n.importer.sizes(value);
      bool one = known && known->size() == 1;
      first.push_back(one ? std::optional(known->front()) : std::nullopt);
      steps.push_back(one ? std::optional<int64_t>(1) : std::nullopt);
    }
  }

  bool any() const {
    return llvm::any_of(steps, [](const auto &step) { return bool(step); });
  }
  void forget() { steps.assign(steps.size(), std::nullopt); }

  /// The body's argument `i` as it is read in the iteration `counter`.
  Value inside(size_t i, Value argument, Dim counter) {
    if (!steps[i])
      return argument;
    Dim now = *first[i] + counter * *steps[i];
    return n.reshape(n.sizeScalar(now, ts::elementTypeOf(argument)),
                     ts::dimsOf(argument));
  }

  /// False when the body does something else than was guessed; then it has to
  /// be built again.
  bool holds(ArrayRef<Value> carried, Dim counter) {
    bool right = true;
    for (auto [i, value] : llvm::enumerate(carried)) {
      if (!steps[i])
        continue;
      std::optional<SmallVector<Dim>> after = n.importer.sizes(value);
      std::optional<int64_t> grown;
      if (after && after->size() == 1)
        grown = (after->front() - *first[i] - counter * *steps[i]).asConstant();
      if (grown == steps[i])
        continue;
      right = false;
      bool again = grown && *steps[i] == 1; // by another number
      steps[i] = again ? grown : std::nullopt;
    }
    return right;
  }

private:
  Node &n;
  SmallVector<std::optional<Dim>> first;
  SmallVector<std::optional<int64_t>> steps;
};

/// A loop whose body is built until what was taken of it holds.
class LoopBuild {
public:
  LoopBuild(Node &n, const LoopShape &shape)
      : n(n), importer(n.importer), shape(shape), before(importer.mark()),
        counters(n, shape.carried), initial(shape.carried) {
    for (Value value : shape.carried) {
      dims.push_back(ts::dimsOf(value));
      varies.emplace_back(dims.back().size(), false);
    }
  }

  std::optional<SmallVector<Value>> run(BuildIteration build);

private:
  enum class Fit { same, changed, failed };

  void beginBody(OnnxBody &body);
  SmallVector<Value> argumentsOf(OnnxBody &body);
  Fit beginAs(size_t i, Value first);
  Fit widen(OnnxBody &body, size_t i, Value &value);
  Fit fit(OnnxBody &body, Iteration &iteration);
  Value finishBody(OnnxBody &body, const Iteration &iteration);
  LogicalResult scanTypes(OnnxBody &body, const Iteration &iteration,
                          std::optional<Dim> rows);
  std::optional<SmallVector<Value>> finish(OnnxBody &body,
                                           const Iteration &iteration);

  Node &n;
  Importer &importer;
  const LoopShape &shape;
  Importer::Mark before;
  Counters counters;
  SmallVector<Value> initial;
  SmallVector<SmallVector<Dim>> dims;    ///< of each carried value
  std::vector<SmallVector<bool>> varies; ///< from iteration to iteration
  // Of this build of the body:
  SmallVector<Type> types;              ///< of the results
  llvm::SetVector<StringAttr> changing; ///< symbols of what varies
  Dim counter;
};

/// Carried sizes that change from iteration to iteration become symbols.
void LoopBuild::beginBody(OnnxBody &body) {
  types.clear();
  changing.clear();
  for (size_t i = 0; i < dims.size(); ++i) {
    for (size_t d = 0; d < dims[i].size(); ++d)
      if (varies[i][d]) {
        dims[i][d] = importer.freshSymbol("carried");
        changing.insert(n.b.getStringAttr(*dims[i][d].asSymbol()));
      }
    types.push_back(ts::tensorType(importer.context, dims[i],
                                   ts::elementTypeOf(initial[i])));
  }
  counter = importer.freshSymbol("iteration");
  importer.beginBody(body, "loop", n.loc, shape.around->body, types);
}

SmallVector<Value> LoopBuild::argumentsOf(OnnxBody &body) {
  SmallVector<Value> arguments;
  for (auto [i, argument] : llvm::enumerate(body.function.getArguments()))
    arguments.push_back(counters.inside(i, argument, counter));
  return arguments;
}

/// Carried value `i` begins as `first`, made before the loop.
LoopBuild::Fit LoopBuild::beginAs(size_t i, Value first) {
  if (!first)
    return Fit::failed;
  initial[i] = first;
  dims[i] = ts::dimsOf(first);
  varies[i].assign(dims[i].size(), false);
  return Fit::changed;
}

/// Carried value `i`, of which an iteration makes `value`: what varies is
/// noted.
LoopBuild::Fit LoopBuild::widen(OnnxBody &body, size_t i, Value &value) {
  // The values before the first iteration are never results.
  bool runs = !shape.condition &&
              (!shape.trips || shape.trips->asConstant().value_or(0) > 0);
  OpBuilder::InsertPoint inside = importer.b.saveInsertionPoint();
  // A number may begin as [] and go on as [1].
  if (ts::rankOf(value) != ts::rankOf(initial[i]) &&
      ts::elementCount(value.getType()).isConstant(1) &&
      ts::elementCount(initial[i].getType()).isConstant(1)) {
    if (runs && initial[i] == shape.carried[i]) { // once: the body may swap
      importer.b.restoreInsertionPoint(before.at);
      Value first = n.reshape(initial[i], ts::dimsOf(value));
      importer.b.restoreInsertionPoint(inside);
      return beginAs(i, first);
    }
    value = n.reshape(value, ts::dimsOf(initial[i]));
    if (!value)
      return Fit::failed;
  }
  // What an iteration writes before it reads may begin as anything.
  if (ts::rankOf(value) != ts::rankOf(initial[i]) && runs &&
      body.function.getArgument(i).use_empty() &&
      isKnownOutside(body.function, changing, counter, value)) {
    importer.b.restoreInsertionPoint(before.at);
    Value first = n.broadcastTo(n.scalarFor(value, 0), ts::dimsOf(value));
    importer.b.restoreInsertionPoint(inside);
    return beginAs(i, first);
  }
  if (ts::elementTypeOf(value) != ts::elementTypeOf(initial[i]) ||
      ts::rankOf(value) != ts::rankOf(initial[i])) {
    (void)n.unsupported("carried value " + std::to_string(i) + " is " +
                        ts::shapeText(initial[i].getType()) + " and becomes " +
                        ts::shapeText(value.getType()));
    return Fit::failed;
  }
  Fit found = Fit::same;
  for (auto [d, dim] : llvm::enumerate(ts::dimsOf(value)))
    if (!(dim == dims[i][d]) && !varies[i][d]) {
      varies[i][d] = true;
      found = Fit::changed;
    }
  return found;
}

/// Whether the body holds what it was built for.
LoopBuild::Fit LoopBuild::fit(OnnxBody &body, Iteration &iteration) {
  Fit all =
      counters.holds(iteration.carried, counter) ? Fit::same : Fit::changed;
  for (auto [i, value] : llvm::enumerate(iteration.carried)) {
    Fit one = widen(body, i, value); // may bring it to the rank it began with
    if (one == Fit::failed)
      return one;
    if (one == Fit::changed)
      all = one;
  }
  return all;
}

/// Ends the body. Returns the loop's first condition, or null.
Value LoopBuild::finishBody(OnnxBody &body, const Iteration &iteration) {
  SmallVector<Value> returned;
  Value condition = shape.condition;
  if (iteration.condition) {
    returned.push_back(iteration.condition);
    importer.b.restoreInsertionPoint(before.at);
    if (!condition)
      condition = n.integerScalar(1, n.b.getI1Type());
    importer.b.setInsertionPointToEnd(&body.function.getBody().front());
  } else if (condition) { // tested once: stays true
    returned.push_back(n.integerScalar(1, n.b.getI1Type()));
  }
  llvm::append_range(returned, iteration.carried);
  llvm::append_range(returned, iteration.scans);
  importer.endBody(body, returned, before.at);
  return condition;
}

/// Adds the types of what is collected, `rows` of it, to those of the results.
LogicalResult LoopBuild::scanTypes(OnnxBody &body, const Iteration &iteration,
                                   std::optional<Dim> rows) {
  llvm::SetVector<StringAttr> inner = changing;
  collectSet(body.function, inner);
  inner.insert(n.b.getStringAttr(*counter.asSymbol()));
  for (Value scan : iteration.scans) {
    SmallVector<Dim> all{*rows};
    for (Dim dim : ts::dimsOf(scan)) {
      llvm::SetVector<StringAttr> used;
      dim.collectSymbols(used);
      if (llvm::any_of(used, [&](StringAttr s) { return inner.contains(s); }))
        return n.unsupported("a value that is collected over the loop changes "
                             "its size, " +
                             ts::shapeText(scan.getType()));
      all.push_back(dim);
    }
    types.push_back(
        ts::tensorType(importer.context, all, ts::elementTypeOf(scan)));
  }
  return mlir::success();
}

std::optional<SmallVector<Value>>
LoopBuild::finish(OnnxBody &body, const Iteration &iteration) {
  Value condition = finishBody(body, iteration);
  std::optional<Dim> rows = shape.trips;
  StringAttr count;
  if (condition && !iteration.scans.empty()) {
    rows = importer.freshSymbol("iterations");
    count = n.b.getStringAttr(*rows->asSymbol());
  }
  if (failed(scanTypes(body, iteration, rows)))
    return std::nullopt;
  SmallVector<Attribute> symbols(changing.begin(), changing.end());
  auto op = ts::LoopOp::create(
      n.b, n.loc, types, SymbolRefAttr::get(body.function),
      n.b.getStringAttr(*counter.asSymbol()),
      shape.trips ? shape.trips->attr() : ts::DimAttr(), condition, initial,
      body.captures, count, n.b.getArrayAttr(symbols),
      n.b.getDenseBoolArrayAttr(shape.reversed));
  return SmallVector<Value>(op.getResults());
}

std::optional<SmallVector<Value>> LoopBuild::run(BuildIteration build) {
  for (;;) {
    OnnxBody body;
    beginBody(body);
    SmallVector<Value> arguments = argumentsOf(body);
    Iteration iteration;
    if (failed(build(body, counter, arguments, iteration)) || n.failed()) {
      importer.endBody(body, {}, before.at);
      if (!counters.any())
        return std::nullopt;
      // Perhaps for what was guessed.
      counters.forget();
      n.error.reset();
      n.missing.reset();
      importer.rewind(before);
      continue;
    }
    Fit found = fit(body, iteration);
    if (found == Fit::same)
      return finish(body, iteration);
    importer.endBody(body, {}, before.at);
    if (found == Fit::failed)
      return std::nullopt;
    importer.rewind(before);
  }
}

} // namespace

std::optional<SmallVector<Value>> buildLoop(Node &n, const LoopShape &shape,
                                            BuildIteration build) {
  return LoopBuild(n, shape).run(build);
}

namespace {

constexpr int64_t endless = int64_t(1) << 40;
constexpr int64_t maxUnrolled = 256;

struct LoopNode {
  const onnx::GraphProto *graph = nullptr;
  size_t carried = 0;

  Status importIteration(Node &n, OnnxScope &scope, Value number,
                         ArrayRef<Value> state,
                         SmallVector<Value> &results) const {
    scope.values[graph->input(0).name()] = number;
    scope.values[graph->input(1).name()] =
        n.integerScalar(1, n.b.getI1Type()); // or it would not run
    for (size_t i = 0; i < carried; ++i)
      scope.values[graph->input(static_cast<int>(i) + 2).name()] = state[i];
    ASSIGN_OR_RETURN(SmallVector<Value> values,
                     n.importer.importGraph(*graph, scope));
    results = values;
    return success();
  }
};

/// Iteration by iteration, for sequences: those exist while importing only.
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
                           Twine(maxUnrolled) + " iterations");
    OnnxScope scope = innerScope(n, "iteration" + std::to_string(i));
    SmallVector<Value> results;
    Status status = loop.importIteration(
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
      return n.unsupported(
          "what it collects has no iteration to tell its type");
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
      [&](OnnxBody &body, Dim counter, ArrayRef<Value> state,
          Iteration &iteration) {
        OnnxScope scope = innerScope(n, "body");
        scope.body = &body;
        SmallVector<Value> values;
        Status status = loop.importIteration(
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
          iteration.condition = condition;
        iteration.carried.assign(values.begin() + 1,
                                 values.begin() + 1 + loop.carried);
        iteration.scans.assign(values.begin() + 1 + loop.carried, values.end());
        if (!shape.trips && !iteration.condition && !shape.condition)
          return n.unsupported("it never ends");
        return mlir::success();
      });
  if (!results)
    return failure();
  return giveAll(n, *results);
}

} // namespace knapper
