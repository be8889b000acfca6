// The emitter's arithmetic on indices: of programs, and of the lanes of a tile.
#include "codegen/schedule/core/ElementEmitter.h"

#include "ir/tensor/SymbolicValue.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

static std::optional<int64_t> asNumber(Value value) {
  APInt number;
  if (value && matchPattern(value, m_ConstantInt(&number)))
    return number.getSExtValue();
  return std::nullopt;
}

Value ElementEmitter::constant(int64_t value) {
  Value &known = constants[value];
  if (!known)
    known = arith::ConstantIndexOp::create(entry, location, value);
  return known;
}

Value ElementEmitter::add(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (x && y)
    return constant(*x + *y);
  if (x == 0)
    return b;
  if (y == 0)
    return a;
  return arith::AddIOp::create(builder, location, a, b);
}

Value ElementEmitter::sub(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (x && y)
    return constant(*x - *y);
  if (y == 0)
    return a;
  return arith::SubIOp::create(builder, location, a, b);
}

Value ElementEmitter::mul(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (x && y)
    return constant(*x * *y);
  if (x == 0 || y == 0)
    return constant(0);
  if (x == 1)
    return b;
  if (y == 1)
    return a;
  return arith::MulIOp::create(builder, location, a, b);
}

Value ElementEmitter::div(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (y == 1)
    return a;
  if (x && y && *y)
    return constant(*x / *y);
  return arith::DivUIOp::create(builder, location, a, b);
}

Value ElementEmitter::rem(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (y == 1)
    return constant(0);
  if (x && y && *y)
    return constant(*x % *y);
  return arith::RemUIOp::create(builder, location, a, b);
}

Value ElementEmitter::min(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (x && y)
    return constant(std::min(*x, *y));
  return arith::MinSIOp::create(builder, location, a, b);
}

Value ElementEmitter::max(Value a, Value b) {
  auto x = asNumber(a), y = asNumber(b);
  if (x && y)
    return constant(std::max(*x, *y));
  return arith::MaxSIOp::create(builder, location, a, b);
}

Value ElementEmitter::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, a,
                               b);
}

/// Rounded down, as dims are; `whole`: neither is negative.
static Value floorDiv(OpBuilder &builder, Location location, Value a, Value b,
                      bool whole) {
  if (whole)
    return arith::DivUIOp::create(builder, location, a, b);
  return arith::FloorDivSIOp::create(builder, location, a, b);
}

/// Sizes are loop invariant: their arithmetic goes to the function's start.
Value ElementEmitter::size(Dim dim) {
  if (std::optional<int64_t> number = dim.asConstant())
    return constant(*number);
  if (Value known = sizes.lookup(dim.attr()))
    return known;
  Value sum;
  for (auto [coefficient, monomial] :
       llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials())) {
    Value term =
        coefficient == 1 && !monomial.empty() ? Value() : constant(coefficient);
    for (Attribute atom : monomial) {
      Value factor;
      if (auto symbol = dyn_cast<StringAttr>(atom)) {
        factor = symbolValues.lookup(symbol.getValue());
        assert(factor && "symbol is no argument of the kernel");
      } else {
        auto fn = cast<ts::DimFnAttr>(atom);
        Value a = size(fn.getLhs()), b = size(fn.getRhs());
        auto above = ts::lowerBound(fn.getLhs()),
             divisor = ts::lowerBound(fn.getRhs());
        bool whole = above && *above >= 0 && divisor && *divisor >= 0;
        switch (static_cast<ts::DimFn>(fn.getFn())) {
        case ts::DimFn::floordiv:
          factor = floorDiv(entry, location, a, b, whole);
          break;
        case ts::DimFn::mod:
          factor = whole ? Value(arith::RemUIOp::create(entry, location, a, b))
                         : arith::SubIOp::create(
                               entry, location, a,
                               arith::MulIOp::create(
                                   entry, location,
                                   floorDiv(entry, location, a, b, false), b));
          break;
        case ts::DimFn::min:
          factor = arith::MinSIOp::create(entry, location, a, b);
          break;
        case ts::DimFn::max:
          factor = arith::MaxSIOp::create(entry, location, a, b);
          break;
        }
      }
      term = term ? Value(arith::MulIOp::create(entry, location, term, factor))
                  : factor;
    }
    sum = sum ? Value(arith::AddIOp::create(entry, location, sum, term)) : term;
  }
  return sizes[dim.attr()] = sum;
}

SmallVector<Value> ElementEmitter::delinearize(Value position,
                                               ArrayRef<Dim> dims) {
  SmallVector<Value> indices(dims.size());
  SmallVector<Cut, 4> cut; // innermost first
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].isConstant(1)) {
      indices[i] = constant(0);
      continue;
    }
    bool outermost =
        llvm::all_of(dims.take_front(i), [](Dim d) { return d.isConstant(1); });
    Value inside = position;
    if (outermost) {
      indices[i] = position;
      position = constant(0);
    } else {
      Value extent = size(dims[i]);
      indices[i] = rem(position, extent);
      position = div(position, extent);
    }
    cut.push_back({indices[i], dims[i], inside});
  }
  if (cut.size() > 1) {
    std::reverse(cut.begin(), cut.end());
    cuts[cut.front().index].push_back(std::move(cut));
  }
  return indices;
}

size_t ElementEmitter::leadingPosition(ArrayRef<LaneIndex> indices,
                                       ArrayRef<Dim> dims, Value &position) {
  size_t most = 0;
  auto first = llvm::find_if(dims, [](Dim d) { return !d.isConstant(1); });
  if (first == dims.end() || !indices[first - dims.begin()].start)
    return 0;
  auto known = cuts.find(indices[first - dims.begin()].start);
  if (known == cuts.end())
    return 0;
  for (ArrayRef<Cut> cut : known->second) {
    size_t taken = 0;
    for (size_t i = 0; i < dims.size() && taken < cut.size(); ++i) {
      if (dims[i].isConstant(1))
        continue;
      // The outermost extent takes no part in the position.
      if (!indices[i].isUniform() || indices[i].start != cut[taken].index ||
          (taken && !(dims[i] == cut[taken].dim)))
        break;
      if (++taken > 1 && i + 1 > most) {
        most = i + 1;
        position = cut[taken - 1].position;
      }
    }
  }
  return most;
}

//===----------------------------------------------------------------------===//
// Lane indices
//===----------------------------------------------------------------------===//

Value ElementEmitter::laneNumbers(int64_t lanes) {
  auto type = VectorType::get(lanes, builder.getIndexType());
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  return arith::ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
}

Value ElementEmitter::toVector(const LaneIndex &index, int64_t lanes) {
  if (index.perLane)
    return index.perLane;
  auto type = VectorType::get(lanes, builder.getIndexType());
  Value start =
      vector::BroadcastOp::create(builder, location, type, index.start);
  if (index.step == 0)
    return start;
  Value steps = laneNumbers(lanes);
  if (index.step != 1)
    steps = arith::MulIOp::create(
        builder, location, steps,
        vector::BroadcastOp::create(builder, location, type,
                                    constant(index.step)));
  return arith::AddIOp::create(builder, location, start, steps);
}

Value ElementEmitter::dividedByRun(const LaneIndex &index, int64_t run,
                                   int64_t lanes) {
  auto type = VectorType::get(lanes, builder.getIndexType());
  if (index.perLane)
    return arith::DivSIOp::create(
        builder, location, index.perLane,
        vector::BroadcastOp::create(builder, location, type, constant(run)));
  std::optional<int64_t> number = asNumber(index.start);
  Value part = number ? constant(*number / run)
                      : Value(arith::DivSIOp::create(
                            builder, location, index.start, constant(run)));
  return vector::BroadcastOp::create(builder, location, type, part);
}

Value ElementEmitter::lanesInRun(int64_t run, int64_t lanes) {
  return arith::RemUIOp::create(builder, location, laneNumbers(lanes),
                                widen(constant(run), lanes));
}

LaneIndex ElementEmitter::runsIndex(Value runs, int64_t run, int64_t lanes) {
  Value inside = lanesInRun(run, lanes);
  Value first = arith::MulIOp::create(builder, location, runs,
                                      widen(constant(run), lanes));
  Value all = arith::AddIOp::create(builder, location, first, inside);
  return {{}, 0, all, 1, runs, static_cast<int32_t>(run)};
}

LaneIndex ElementEmitter::withRuns(const LaneIndex &index, int64_t lanes) {
  if (index.runs || index.perLane || index.step != 1 || laneRun <= 1 ||
      index.multipleOf % laneRun || lanes % laneRun)
    return index;
  auto type = VectorType::get(lanes, builder.getIndexType());
  Value groups = tile::LaneGroupsOp::create(builder, location, type,
                                            static_cast<uint64_t>(laneRun));
  LaneIndex first{index.start, 0, {}, index.multipleOf};
  Value runs = arith::AddIOp::create(
      builder, location, dividedByRun(first, laneRun, lanes), groups);
  return runsIndex(runs, laneRun, lanes);
}

std::pair<Value, int64_t> ElementEmitter::below(const LaneIndex &index,
                                                Dim extent, int64_t lanes) {
  auto type = VectorType::get(lanes, builder.getIndexType());
  auto less = [&](Value value, Value end) -> Value {
    return arith::CmpIOp::create(
        builder, location, arith::CmpIPredicate::ult, value,
        vector::BroadcastOp::create(builder, location, type, end));
  };
  std::optional<int64_t> number = extent.asConstant();
  if (index.runs && number && *number % index.run == 0)
    return {less(index.runs, constant(*number / index.run)), index.run};
  return {less(toVector(index, lanes), size(extent)), sharedBy(index)};
}

LaneIndex ElementEmitter::addIndex(const LaneIndex &a, const LaneIndex &b,
                                   int64_t lanes) {
  if (a.perLane || b.perLane) {
    LaneIndex sum{{},
                  0,
                  arith::AddIOp::create(builder, location, toVector(a, lanes),
                                        toVector(b, lanes)),
                  std::gcd(a.multipleOf, b.multipleOf),
                  {},
                  1,
                  static_cast<int32_t>(std::min(sharedBy(a), sharedBy(b)))};
    const LaneIndex &with = a.runs ? a : b, &other = a.runs ? b : a;
    if (with.runs && !other.runs && sharedBy(other) >= with.run &&
        asNumber(other.start).value_or(other.multipleOf) % with.run == 0) {
      sum.run = with.run;
      sum.runs = arith::AddIOp::create(builder, location, with.runs,
                                       dividedByRun(other, with.run, lanes));
    }
    return sum;
  }
  return {add(a.start, b.start),
          a.step + b.step,
          {},
          std::gcd(a.multipleOf, b.multipleOf)};
}

LaneIndex ElementEmitter::scaleIndex(const LaneIndex &a, Dim factor,
                                     int64_t lanes) {
  std::optional<int64_t> number = factor.asConstant();
  if (a.runs && number == 1)
    return a;
  if (!a.perLane && (a.step == 0 || number))
    return {mul(a.start, size(factor)),
            a.step * number.value_or(0),
            {},
            number ? a.multipleOf * std::max<int64_t>(1, std::abs(*number))
            : laneRun > 1
                ? a.multipleOf * std::max<int64_t>(1, factor.knownDivisor())
                : 1};
  auto type = VectorType::get(lanes, builder.getIndexType());
  return {{},
          0,
          arith::MulIOp::create(builder, location, toVector(a, lanes),
                                vector::BroadcastOp::create(
                                    builder, location, type, size(factor))),
          a.multipleOf * std::max<int64_t>(1, factor.knownDivisor()),
          {},
          1,
          static_cast<int32_t>(sharedBy(a))};
}

LaneIndex ElementEmitter::offsetIndex(const LaneIndex &a, Dim offset,
                                      int64_t lanes) {
  if (offset.isConstant(0))
    return a;
  LaneIndex b{size(offset), 0, {}, std::max<int64_t>(1, offset.knownDivisor())};
  return addIndex(a, b, lanes);
}

SmallVector<LaneIndex> ElementEmitter::split(const LaneIndex &position,
                                             ArrayRef<Dim> dims,
                                             int64_t lanes) {
  SmallVector<LaneIndex> result(dims.size());
  if (position.isUniform()) {
    for (auto [index, start] :
         llvm::zip(result, delinearize(position.start, dims)))
      index = {start};
    return result;
  }
  // Numbers of 32 bits are divided in a quarter of the instructions; lanes
  // behind the end count too.
  Dim all = ts::product(builder.getContext(), dims);
  std::optional<int64_t> elements = all.asConstant();
  bool isNarrow =
      elements && *elements <= std::numeric_limits<int32_t>::max() - lanes;
  LaneIndex rest = withRuns(position, lanes);
  for (size_t i = dims.size(); i-- > 0;) {
    bool outermost =
        llvm::all_of(dims.take_front(i), [](Dim d) { return d.isConstant(1); });
    if (outermost) {
      result[i] = rest;
      rest = {constant(0)};
      continue;
    }
    if (dims[i].isConstant(1)) {
      result[i] = {constant(0)};
      continue;
    }
    Value extent = size(dims[i]);
    if (rest.isUniform()) {
      result[i] = {rem(rest.start, extent)};
      rest = {div(rest.start, extent)};
      continue;
    }
    // A run that starts at a multiple of its length stays within a dim that
    // the length divides.
    std::optional<int64_t> number = dims[i].asConstant();
    if (!rest.perLane && rest.step == 1 && number && *number % lanes == 0 &&
        rest.multipleOf % lanes == 0) {
      int64_t known = std::gcd(rest.multipleOf, *number);
      result[i] = {rem(rest.start, extent), 1, {}, known};
      rest = {div(rest.start, extent)};
      continue;
    }
    auto type = VectorType::get(lanes, builder.getIndexType());
    if (rest.runs && number && *number % rest.run == 0) {
      Value by = vector::BroadcastOp::create(builder, location, type,
                                             constant(*number / rest.run));
      result[i] =
          runsIndex(arith::RemUIOp::create(builder, location, rest.runs, by),
                    rest.run, lanes);
      rest = {
          {},      0,  arith::DivUIOp::create(builder, location, rest.runs, by),
          1,       {}, 1,
          rest.run};
      continue;
    }
    Value all = toVector(rest, lanes);
    Value by = vector::BroadcastOp::create(builder, location, type, extent);
    int64_t shared = sharedBy(rest);
    auto divided = [&](Value value) -> LaneIndex {
      if (isNarrow)
        value = arith::IndexCastUIOp::create(builder, location, type, value);
      return {{}, 0, value, 1, {}, 1, static_cast<int32_t>(shared)};
    };
    if (isNarrow) {
      auto narrow = VectorType::get(lanes, builder.getI32Type());
      for (Value *value : {&all, &by})
        *value =
            arith::IndexCastUIOp::create(builder, location, narrow, *value);
    }
    result[i] = divided(arith::RemUIOp::create(builder, location, all, by));
    rest = divided(arith::DivUIOp::create(builder, location, all, by));
  }
  return result;
}

} // namespace knapper
