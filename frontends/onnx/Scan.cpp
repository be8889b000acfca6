// The operator Scan: a loop over slices.
#include "frontends/onnx/ControlFlowBodies.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

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
      [&](OnnxBody &body, Dim counter, ArrayRef<Value> state,
          Iteration &iteration) {
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
        iteration.carried.assign(values->begin(),
                                 values->begin() + states.size());
        iteration.scans.assign(values->begin() + states.size(), values->end());
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

} // namespace

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
  return giveAll(n, *results);
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
      n, shape,
      [&](OnnxBody &body, Dim counter, ArrayRef<Value>, Iteration &iteration) {
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
        iteration.scans = *inner;
        return mlir::success();
      });
  if (!results)
    return failure();
  return giveAll(n, *results);
}

} // namespace knapper
