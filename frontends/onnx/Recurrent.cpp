// RNN, GRU and LSTM. All inputs times W are one matmul before the
// loop; an iteration multiplies the state with R and applies the gates. Few
// iterations stand one after another, more become a ts.loop. The LSTM of ONNX
// Runtime's dynamic quantisation has bytes for W and R and makes bytes of what
// they multiply.
#include "frontends/onnx/ControlFlowBodies.h"
#include "frontends/onnx/Integers.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

constexpr int64_t maxUnrolled = 4;

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

struct GateActivation {
  std::string name;
  double alpha = 0, beta = 0;
};

struct ActivationDefaults {
  StringRef name;
  std::optional<double> alpha, beta; ///< nothing: it has none
};

constexpr auto none = std::nullopt;

const ActivationDefaults activations[] = {
    {"Relu", none, none},      {"Tanh", none, none},
    {"Sigmoid", none, none},   {"Softsign", none, none},
    {"Softplus", none, none},  {"Affine", 1.0, 0.0},
    {"LeakyRelu", 0.01, none}, {"ThresholdedRelu", 1.0, none},
    {"ScaledTanh", 1.0, 1.0},  {"HardSigmoid", 0.2, 0.5},
    {"Elu", 1.0, none},
};

Value apply(Node &n, const GateActivation &f, Value x) {
  auto zero = [&] { return n.scalarFor(x, 0); };
  if (f.name == "Relu")
    return n.binary<ts::MaxOp>(x, zero());
  if (f.name == "Tanh")
    return n.make<ts::TanhOp>(x);
  if (f.name == "Sigmoid")
    return n.make<ts::SigmoidOp>(x);
  if (f.name == "Softsign")
    return n.div(x, n.add(n.make<ts::AbsOp>(x), 1));
  if (f.name == "Softplus") {
    Value tail = n.make<ts::Log1pOp>(
        n.make<ts::ExpOp>(n.make<ts::NegOp>(n.make<ts::AbsOp>(x))));
    return n.add(n.binary<ts::MaxOp>(x, zero()), tail);
  }
  if (f.name == "Affine")
    return n.add(n.mul(x, f.alpha), f.beta);
  if (f.name == "LeakyRelu")
    return n.select(n.compare(P::lt, x, zero()), n.mul(x, f.alpha), x);
  if (f.name == "ThresholdedRelu")
    return n.select(n.compare(P::gt, x, n.scalarFor(x, f.alpha)), x, zero());
  if (f.name == "ScaledTanh")
    return n.mul(n.make<ts::TanhOp>(n.mul(x, f.beta)), f.alpha);
  if (f.name == "HardSigmoid") {
    Value line = n.add(n.mul(x, f.alpha), f.beta);
    return n.binary<ts::MaxOp>(n.binary<ts::MinOp>(line, n.scalarFor(x, 1)),
                               zero());
  }
  return n.select(n.compare(P::lt, x, zero()),
                  n.mul(n.make<ts::Expm1Op>(x), f.alpha), x);
}

/// `perDirection` functions for each direction.
SmallVector<GateActivation> activationsOf(Node &n, ArrayRef<StringRef> defaults,
                                          size_t directions) {
  SmallVector<GateActivation> list;
  SmallVector<std::string> names = n.texts("activations");
  SmallVector<double> alphas = n.reals("activation_alpha"),
                      betas = n.reals("activation_beta");
  if (!names.empty() && names.size() != defaults.size() * directions) {
    (void)n.fail("has " + Twine(names.size()) + " activations of " +
                     Twine(defaults.size() * directions),
                 "name one for each use and direction");
    return {};
  }
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < defaults.size() * directions; ++i) {
    StringRef name =
        names.empty() ? defaults[i % defaults.size()] : StringRef(names[i]);
    const ActivationDefaults *known =
        llvm::find_if(activations, [&](const ActivationDefaults &a) {
          return a.name.equals_insensitive(name);
        });
    if (known == std::end(activations)) {
      (void)n.fail("there is no activation '" + name + "'",
                   "use one that ONNX names");
      return {};
    }
    GateActivation f{known->name.str()};
    // Parameters are listed for those functions only that take one.
    if (known->alpha)
      f.alpha = alpha < alphas.size() ? alphas[alpha++] : *known->alpha;
    if (known->beta)
      f.beta = beta < betas.size() ? betas[beta++] : *known->beta;
    list.push_back(f);
  }
  return list;
}

//===----------------------------------------------------------------------===//
// One direction
//===----------------------------------------------------------------------===//

enum class RecurrentCell { rnn, gru, lstm };

/// A factor of a matmul: [n, k]; or bytes [k, n] with a scale and a zero
/// point, of rank 0 or [n].
struct Weights {
  Value value, scale, zero; ///< scale and zero null: not quantised
};

struct Recurrence {
  RecurrentCell cell;
  int64_t gates;
  bool linearBeforeReset = false, coupled = false;
  double clip = 0;
  SmallVector<GateActivation> functions; ///< of the direction
  Dim steps, batch, hidden;
  bool reverse;
  // Values beside the loop; `lengths` null: all steps count.
  Value input;     ///< [steps, batch, gates * hidden]: matmuls and biases
  Weights weights; ///< R, [gates * hidden, hidden]
  Value bias;      ///< [hidden] of the hidden gate, where it stands inside
  Value peepholes; ///< [3 * hidden]
  Value lengths;   ///< [batch]
};

Value dot(Node &n, Value x, Value weights) {
  int64_t rank = ts::rankOf(x);
  return n.make<ts::DotOp>(x, weights, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                           ArrayRef<int64_t>{rank - 1}, ArrayRef<int64_t>{1},
                           TypeAttr());
}

/// The matmul with what x is in steps of a 255th of its range where the
/// weights are bytes.
Value dot(Node &n, Value x, const Weights &weights) {
  if (!weights.scale)
    return dot(n, x, weights.value);
  DynamicSteps left = quantizeDynamically(n, x);
  Value matmul =
      integerMatMul(n, left.steps, left.zero, weights.value, weights.zero);
  return n.mul(n.convert(matmul, n.b.getF32Type()),
               n.mul(left.scale, weights.scale));
}

Value gate(Node &n, const Recurrence &r, Value all, int64_t index,
           int64_t count = 1) {
  if (!all)
    return {};
  return n.sliceDim(all, ts::rankOf(all) - 1, r.hidden * index,
                    r.hidden * count);
}

Value clipped(Node &n, const Recurrence &r, Value x) {
  if (r.clip <= 0)
    return x;
  return n.binary<ts::MaxOp>(n.binary<ts::MinOp>(x, n.scalarFor(x, r.clip)),
                             n.scalarFor(x, -r.clip));
}

Value activate(Node &n, const Recurrence &r, size_t function, Value x) {
  return apply(n, r.functions[function], clipped(n, r, x));
}

/// The next state: h, and c of an LSTM. `x` is the input's share of a step.
SmallVector<Value> nextState(Node &n, const Recurrence &r, Value x,
                             ArrayRef<Value> state) {
  Value h = state[0];
  if (r.cell == RecurrentCell::rnn)
    return {activate(n, r, 0, n.add(x, dot(n, h, r.weights)))};
  if (r.cell == RecurrentCell::lstm) {
    Value all = n.add(x, dot(n, h, r.weights)), c = state[1];
    auto peep = [&](Value value, int64_t index, Value cell) {
      return r.peepholes
                 ? n.add(value, n.mul(cell, gate(n, r, r.peepholes, index)))
                 : value;
    };
    Value i = activate(n, r, 0, peep(gate(n, r, all, 0), 0, c));
    Value f = r.coupled ? n.sub(n.scalarFor(i, 1), i)
                        : activate(n, r, 0, peep(gate(n, r, all, 2), 2, c));
    Value fresh = activate(n, r, 1, gate(n, r, all, 3));
    Value next = n.add(n.mul(f, c), n.mul(i, fresh));
    Value o = activate(n, r, 0, peep(gate(n, r, all, 1), 1, next));
    return {n.mul(o, apply(n, r.functions[2], next)), next};
  }
  // z, r, h
  Value reset, update, candidate;
  if (r.linearBeforeReset) {
    Value all = dot(n, h, r.weights);
    Value both =
        activate(n, r, 0, n.add(gate(n, r, x, 0, 2), gate(n, r, all, 0, 2)));
    update = gate(n, r, both, 0);
    reset = gate(n, r, both, 1);
    Value inner = gate(n, r, all, 2);
    if (r.bias)
      inner = n.add(inner, r.bias);
    candidate = n.add(gate(n, r, x, 2), n.mul(reset, inner));
  } else {
    Value first = n.sliceDim(r.weights.value, 0, n.dim(0), r.hidden * 2),
          last = n.sliceDim(r.weights.value, 0, r.hidden * 2, r.hidden);
    Value both =
        activate(n, r, 0, n.add(gate(n, r, x, 0, 2), dot(n, h, first)));
    update = gate(n, r, both, 0);
    reset = gate(n, r, both, 1);
    candidate = n.add(gate(n, r, x, 2), dot(n, n.mul(reset, h), last));
  }
  Value fresh = activate(n, r, 1, candidate);
  Value kept = n.mul(update, h);
  return {n.add(n.mul(n.sub(n.scalarFor(update, 1), update), fresh), kept)};
}

/// One iteration: the states after it and the row of Y.
SmallVector<Value> iteration(Node &n, const Recurrence &r, Dim step,
                             ArrayRef<Value> state) {
  Dim at = r.reverse ? r.steps - 1 - step : step;
  Value x = n.reshape(n.sliceDim(r.input, 0, at, n.dim(1)),
                      {r.batch, r.hidden * r.gates});
  SmallVector<Value> next = nextState(n, r, x, state);
  Value row = next[0];
  if (r.lengths && row) {
    Value now = n.sizeScalar(at, ts::elementTypeOf(r.lengths));
    Value within =
        n.reshape(n.compare(P::lt, now, r.lengths), {r.batch, n.dim(1)});
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = n.select(within, next[i], state[i]);
    row = n.select(within, row, n.scalarFor(row, 0));
  }
  next.push_back(row);
  return next;
}

/// States after the last step, then Y of this direction [steps, batch, hidden].
std::optional<SmallVector<Value>> run(Node &n, const Recurrence &r,
                                      SmallVector<Value> state) {
  std::optional<int64_t> steps = r.steps.asConstant();
  if (steps && *steps >= 1 && *steps <= maxUnrolled) {
    SmallVector<Value> rows;
    for (int64_t i = 0; i < *steps; ++i) {
      SmallVector<Value> next = iteration(n, r, n.dim(i), state);
      Value row = n.reshape(next.pop_back_val(), {n.dim(1), r.batch, r.hidden});
      if (n.failed())
        return std::nullopt;
      state = next;
      rows.insert(r.reverse ? rows.begin() : rows.end(), row);
    }
    state.push_back(n.make<ts::ConcatOp>(ValueRange(rows), int64_t(0)));
    return state;
  }
  LoopShape shape;
  shape.around = &n.scope;
  shape.trips = r.steps;
  shape.carried = state;
  shape.reversed = {r.reverse};
  return buildLoop(
      n, shape,
      [&](OnnxBody &body, Dim counter, ArrayRef<Value> carried,
          Iteration &out) {
        Recurrence inside = r;
        for (Value *value : {&inside.input, &inside.weights.value,
                             &inside.weights.scale, &inside.weights.zero,
                             &inside.bias, &inside.peepholes, &inside.lengths})
          *value = n.importer.capture(body, *value);
        SmallVector<Value> next = iteration(n, inside, counter, carried);
        if (n.failed())
          return failure();
        out.scans = {next.pop_back_val()};
        for (auto [value, before] : llvm::zip(next, carried))
          out.carried.push_back(n.castDims(value, ts::dimsOf(before)));
        return mlir::success();
      });
}

//===----------------------------------------------------------------------===//
// The operators
//===----------------------------------------------------------------------===//

/// The operator's inputs, checked; X [steps, batch, inputs].
struct RecurrentInputs {
  Value x, w, weights, bias, h, c, peepholes; ///< null: not given
  size_t directions = 1;
  bool batchFirst = false;
  bool quantised = false; ///< com.microsoft's operator
};

/// Narrower floats are widened, as matmuls widen them: torch's TorchScript
/// exporter writes attention of bf16 in float32, and what follows it is mixed.
LogicalResult sameElements(Node &n, bool quantised) {
  Type element = ts::elementTypeOf(n[0]);
  // W, R, B, initial h and c, P: what matmuls and sums take beside X.
  for (size_t i : {1, 2, 3, 5, 6, 7})
    if (Type type = n.has(i) ? ts::elementTypeOf(n[i]) : Type();
        type && type != element && !(quantised && i < 3)) {
      if (isa<FloatType>(type) && isa<FloatType>(element) &&
          type.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth()) {
        n.operands[i] = n.convert(n[i], element);
        continue;
      }
      return n.fail("X is " + ts::shapeText(n[0].getType()) + ", input " +
                        Twine(i) + " is " + ts::shapeText(n[i].getType()),
                    "give all of them one element type");
    }
  return mlir::success();
}

/// X, steps first. A state of known size says how large the batch is.
Value stepsFirst(Node &n, bool batchFirst) {
  Value x = batchFirst ? n.transpose(n[0], {1, 0, 2}) : n[0];
  for (size_t i : {5, 6})
    if (x && n.has(i) && ts::rankOf(n[i]) == 3) {
      Dim known = ts::dimOf(n[i], batchFirst ? 0 : 1);
      SmallVector<Dim> dims = ts::dimsOf(x);
      if (!known.asConstant() || dims[1].asConstant())
        continue;
      dims[1] = known;
      x = n.castDims(x, dims);
    }
  return x;
}

/// Input `index` with those dims; null where it is not given.
Value inputOf(Node &n, size_t index, ArrayRef<Dim> dims) {
  if (!n.has(index) || n.failed())
    return {};
  if (ts::rankOf(n[index]) != static_cast<int64_t>(dims.size())) {
    (void)n.fail("input " + Twine(index) + " is " +
                     ts::shapeText(n[index].getType()),
                 "correct its rank");
    return {};
  }
  return n.castDims(n[index], dims);
}

/// The sizes and settings of all directions.
LogicalResult readSettings(Node &n, Recurrence &r, RecurrentInputs &in) {
  for (size_t i : {0, 1, 2})
    if (ts::rankOf(n[i]) != 3)
      return n.fail("X, W and R must have rank 3, not " +
                        Twine(ts::rankOf(n[i])),
                    "correct the shapes");
  if (failed(sameElements(n, in.quantised)))
    return failure();
  std::string direction = n.text("direction", "forward");
  in.directions = direction == "bidirectional" ? 2 : 1;
  if (in.directions == 1 && direction != "forward" && direction != "reverse")
    return n.fail("direction is '" + direction + "'",
                  "use forward, reverse or bidirectional");
  in.batchFirst = n.flag("layout", false);
  in.x = stepsFirst(n, in.batchFirst);
  if (!in.x)
    return failure();
  r.reverse = direction == "reverse";
  r.clip = n.real("clip", 0);
  r.steps = ts::dimOf(in.x, 0);
  r.batch = ts::dimOf(in.x, 1);
  r.hidden = ts::dimOf(n[2], in.quantised ? 1 : 2);
  if (n.hasAttr("hidden_size") &&
      !r.hidden.isConstant(n.integer("hidden_size", 0)))
    return n.fail("hidden_size is " + Twine(n.integer("hidden_size", 0)) +
                      ", R is " + ts::shapeText(n[2].getType()),
                  "correct the shapes");
  r.linearBeforeReset = n.flag("linear_before_reset", false);
  r.coupled = n.flag("input_forget", false);
  return mlir::success();
}

/// The weights, bias, states and lengths of all directions.
LogicalResult readTensors(Node &n, Recurrence &r, RecurrentInputs &in) {
  Dim count = n.dim(static_cast<int64_t>(in.directions)),
      all = r.hidden * r.gates;
  auto factor = [&](Value given, Dim depth) {
    return in.quantised ? n.castDims(given, {count, depth, all})
                        : n.castDims(given, {count, all, depth});
  };
  in.w = factor(n[1], ts::dimOf(in.x, 2));
  in.weights = factor(n[2], r.hidden);
  if (in.quantised)
    for (size_t i : {8, 9, 10, 11})
      if (!n.has(i) || ts::rankOf(n[i]) < 1 || ts::rankOf(n[i]) > 2)
        return n.fail(
            "W or R has no scale and zero point a direction or column",
            "quantise the model again");
  in.bias = inputOf(n, 3, {count, all * 2});
  r.lengths = inputOf(n, 4, {r.batch});
  auto initial = [&](size_t index) -> Value {
    Value state = n.has(index) && in.batchFirst
                      ? inputOf(n, index, {r.batch, count, r.hidden})
                      : inputOf(n, index, {count, r.batch, r.hidden});
    return state && in.batchFirst ? n.transpose(state, {1, 0, 2}) : state;
  };
  in.h = initial(5);
  if (r.cell == RecurrentCell::lstm) {
    in.c = initial(6);
    in.peepholes = inputOf(n, 7, {count, r.hidden * 3});
  }
  return n.failed() || !in.w || !in.weights ? failure() : mlir::success();
}

/// What direction `d` has of a tensor of all of them.
Value ofDirection(Node &n, Value value, size_t d) {
  if (!value)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(value);
  dims.erase(dims.begin());
  Dim at = n.dim(static_cast<int64_t>(d));
  return n.reshape(n.sliceDim(value, 0, at, n.dim(1)), dims);
}

/// X times W and its bias, and the direction's share of all else.
void readDirection(Node &n, Recurrence &r, const RecurrentInputs &in,
                   size_t d) {
  // Of all columns when it is one a direction.
  auto parameter = [&](size_t index) -> Value {
    if (!in.quantised)
      return {};
    Value mine = ofDirection(n, n[index], d);
    return mine && ts::elementCount(mine.getType()).isConstant(1)
               ? n.reshape(mine, {})
               : mine;
  };
  r.weights = {ofDirection(n, in.weights, d), parameter(10), parameter(11)};
  r.peepholes = ofDirection(n, in.peepholes, d);
  r.bias = {};
  r.input = dot(n, in.x,
                Weights{ofDirection(n, in.w, d), parameter(8), parameter(9)});
  Value both = ofDirection(n, in.bias, d);
  if (!both)
    return;
  Dim all = r.hidden * r.gates;
  Value mine = n.sliceDim(both, 0, n.dim(0), all),
        theirs = n.sliceDim(both, 0, all, all);
  if (r.cell == RecurrentCell::gru && r.linearBeforeReset) {
    r.bias = n.sliceDim(theirs, 0, r.hidden * 2, r.hidden);
    Value zero = n.splatLike(0, r.bias);
    SmallVector<Value> parts{n.sliceDim(theirs, 0, n.dim(0), r.hidden * 2),
                             zero};
    theirs = n.make<ts::ConcatOp>(ValueRange(parts), int64_t(0));
  }
  Value sum = n.add(mine, theirs);
  r.input = n.add(r.input, sum);
}

/// The states after the last step, then Y, of direction `d`.
std::optional<SmallVector<Value>>
runDirection(Node &n, Recurrence &r, const RecurrentInputs &in, size_t d) {
  readDirection(n, r, in, d);
  SmallVector<Dim> dims{r.batch, r.hidden};
  auto begin = [&](Value given) {
    return given ? ofDirection(n, given, d)
                 : n.broadcastTo(n.scalarFor(in.x, 0), dims);
  };
  SmallVector<Value> state{begin(in.h)};
  if (r.cell == RecurrentCell::lstm)
    state.push_back(begin(in.c));
  if (n.failed())
    return std::nullopt;
  return run(n, r, state);
}

/// `quantised`: com.microsoft's operator. W and R are bytes, transposed, and
/// the last inputs their scales and zero points, one a direction or one a
/// column.
template <RecurrentCell cell, bool quantised = false>
LogicalResult importRecurrent(Node &n) {
  Recurrence r;
  r.cell = cell;
  r.gates = cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::gru ? 3 : 4;
  RecurrentInputs in;
  in.quantised = quantised;
  if (failed(readSettings(n, r, in)))
    return failure();
  bool reverse = r.reverse;
  SmallVector<StringRef> defaults{cell == RecurrentCell::rnn ? "Tanh"
                                                             : "Sigmoid"};
  if (cell != RecurrentCell::rnn)
    defaults.push_back("Tanh");
  if (cell == RecurrentCell::lstm)
    defaults.push_back("Tanh");
  SmallVector<GateActivation> functions =
      activationsOf(n, defaults, in.directions);
  if (failed(readTensors(n, r, in)))
    return failure();

  SmallVector<Value> outputs, lastH, lastC;
  auto withDirection = [&](Value value, int64_t dim) {
    SmallVector<Dim> all = ts::dimsOf(value);
    all.insert(all.begin() + dim, n.dim(1));
    return n.reshape(value, all);
  };
  for (size_t d = 0; d < in.directions; ++d) {
    r.reverse = reverse || d == 1;
    r.functions.assign(functions.begin() + d * defaults.size(),
                       functions.begin() + (d + 1) * defaults.size());
    std::optional<SmallVector<Value>> results = runDirection(n, r, in, d);
    if (!results)
      return failure();
    outputs.push_back(withDirection(results->back(), 1));
    lastH.push_back(withDirection((*results)[0], 0));
    if (cell == RecurrentCell::lstm)
      lastC.push_back(withDirection((*results)[1], 0));
  }
  auto join = [&](ArrayRef<Value> parts, int64_t dim) {
    return parts.size() == 1 ? parts[0]
                             : n.make<ts::ConcatOp>(ValueRange(parts), dim);
  };
  Value y = join(outputs, 1), finalH = join(lastH, 0);
  if (in.batchFirst) {
    y = n.transpose(y, {2, 0, 1, 3});
    finalH = n.transpose(finalH, {1, 0, 2});
  }
  if (n.wants(0) && failed(n.out(y, 0)))
    return failure();
  if (n.wants(1) && failed(n.out(finalH, 1)))
    return failure();
  if (cell != RecurrentCell::lstm || !n.wants(2))
    return n.failed() ? failure() : mlir::success();
  Value finalC = join(lastC, 0);
  return n.out(in.batchFirst ? n.transpose(finalC, {1, 0, 2}) : finalC, 2);
}

constexpr OpRow rows[] = {
    {"", "GRU", 7, 3, 6, importRecurrent<RecurrentCell::gru>},
    {"", "LSTM", 7, 3, 8, importRecurrent<RecurrentCell::lstm>},
    {"", "RNN", 7, 3, 6, importRecurrent<RecurrentCell::rnn>},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, 3, 12,
     importRecurrent<RecurrentCell::lstm, true>},
};

} // namespace

ArrayRef<OpRow> recurrentRows() { return rows; }

} // namespace knapper
