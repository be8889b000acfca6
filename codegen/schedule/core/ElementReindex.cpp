// How coordinates pass through movement ops.
#include "codegen/schedule/core/ElementEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/base/KernelAbi.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

Coord ElementEmitter::mapAffine(const ts::IndexMap &map, const Coord &coord) {
  Coord result = coord;
  result.dims.clear();
  for (const ts::IndexExpr &expr : map.dims) {
    LaneIndex index{constant(0), 0, {}, 0};
    bool first = true;
    for (const ts::IndexExpr::Term &term : expr.terms) {
      LaneIndex part =
          scaleIndex(coord.dims[term.loop], expr.offset.like(term.coefficient),
                     coord.lanes);
      index = first ? part : addIndex(index, part, coord.lanes);
      first = false;
    }
    if (first)
      index = {size(expr.offset)};
    else
      index = offsetIndex(index, expr.offset, coord.lanes);
    if (index.multipleOf == 0)
      index.multipleOf = 1;
    result.dims.push_back(index);
  }
  return result;
}

Value ElementEmitter::emitConstant(ts::ConstantOp op, const Coord &coord) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements || !elements.isSplat()) {
    op.emitOpError("holds different elements: it must be an operand of the "
                   "kernel, not part of it");
    return {};
  }
  Type element = computeType(elements.getElementType());
  TypedAttr scalar;
  if (isa<FloatType>(element)) {
    APFloat value = elements.getSplatValue<APFloat>();
    bool lost;
    value.convert(cast<FloatType>(element).getFloatSemantics(),
                  APFloat::rmNearestTiesToEven, &lost);
    scalar = builder.getFloatAttr(element, value);
  } else {
    bool isFloat = isa<FloatType>(elements.getElementType());
    APInt bits = isFloat ? elements.getSplatValue<APFloat>().bitcastToAPInt()
                         : elements.getSplatValue<APInt>();
    bool extendsSign =
        !isFloat && !elements.getElementType().isUnsignedInteger();
    unsigned width = element.getIntOrFloatBitWidth();
    scalar = builder.getIntegerAttr(element, extendsSign ? bits.sext(width)
                                                         : bits.zext(width));
  }
  if (coord.lanes)
    scalar = DenseElementsAttr::get(VectorType::get(coord.lanes, element),
                                    Attribute(scalar));
  return arith::ConstantOp::create(builder, location, scalar);
}

Value ElementEmitter::emitIota(ts::IotaOp op, const Coord &coord) {
  const LaneIndex &index = coord.dims[op.getDim()];
  Value value = coord.lanes ? toVector(index, coord.lanes) : index.start;
  Type element = computeType(ts::elementTypeOf(op.getResult()));
  auto typed = [&](Type scalar) -> Type {
    return coord.lanes ? Type(VectorType::get(coord.lanes, scalar)) : scalar;
  };
  if (!isa<FloatType>(element))
    return arith::IndexCastOp::create(builder, location, typed(element), value);
  value = arith::IndexCastOp::create(builder, location,
                                     typed(builder.getI64Type()), value);
  return arith::SIToFPOp::create(builder, location, typed(element), value);
}

/// Splits both sides into the smallest groups of dims with equal products, so
/// that only the dims that really change are taken apart:
///   [B, S, 768] -> [B, S, 12, 64]: groups (B | B) (S | S) (768 | 12, 64)
Coord ElementEmitter::reshape(const Coord &coord, ArrayRef<Dim> from,
                              ArrayRef<Dim> to) {
  Coord result = coord;
  result.dims.assign(to.size(), LaneIndex{constant(0)});
  size_t i = to.size(), j = from.size();
  MLIRContext *context = builder.getContext();
  while (i > 0 || j > 0) {
    size_t i0 = i, j0 = j;
    Dim a = Dim::constant(context, 1), b = a;
    auto takeTo = [&] { a = a * to[--i]; };
    auto takeFrom = [&] { b = b * from[--j]; };
    if (i > 0)
      takeTo();
    if (j > 0)
      takeFrom();
    // Extend the side that divides the other; where neither does, both.
    while (!(a == b) && (i > 0 || j > 0)) {
      if (j > 0 && (i == 0 || a.exactDiv(b)))
        takeFrom();
      else if (i > 0 && (j == 0 || b.exactDiv(a)))
        takeTo();
      else {
        takeTo();
        takeFrom();
      }
    }
    ArrayRef<Dim> toGroup = ArrayRef<Dim>(to).slice(i, i0 - i);
    ArrayRef<Dim> fromGroup = ArrayRef<Dim>(from).slice(j, j0 - j);
    if (toGroup.empty())
      continue; // only dims of size 1 on the result's side
    // Row-major position within the group.
    LaneIndex position{constant(0), 0, {}, 0};
    Dim stride = Dim::constant(context, 1);
    bool first = true;
    Value known;
    ArrayRef<LaneIndex> group =
        ArrayRef<LaneIndex>(coord.dims).slice(j, fromGroup.size());
    size_t leading = leadingPosition(group, fromGroup, known);
    for (size_t k = fromGroup.size(); k-- > 0;) {
      if (k < leading) {
        if (k + 1 == leading) {
          LaneIndex part = scaleIndex({known}, stride, coord.lanes);
          position = first ? part : addIndex(position, part, coord.lanes);
          first = false;
        }
      } else if (!fromGroup[k].isConstant(1)) {
        LaneIndex part = scaleIndex(coord.dims[j + k], stride, coord.lanes);
        position = first ? part : addIndex(position, part, coord.lanes);
        first = false;
      }
      stride = stride * fromGroup[k];
    }
    if (position.multipleOf == 0)
      position.multipleOf = 1;
    for (auto [k, index] :
         llvm::enumerate(split(position, toGroup, coord.lanes)))
      result.dims[i + k] = index;
  }
  return result;
}

Value ElementEmitter::emitReshape(ts::ReshapeOp op, const Coord &coord) {
  return emit(op.getInput(), reshape(coord, ts::dimsOf(op.getResult()),
                                     ts::dimsOf(op.getInput())));
}

/// Outside positions of a dim folded back inside, per lane if need be.
LaneIndex ElementEmitter::foldedPad(ts::PadOp op, unsigned dim, LaneIndex index,
                                    int64_t lanes) {
  Dim length = ts::dimOf(op.getInput(), dim);
  bool vector = lanes && !index.isUniform();
  auto number = [&](Value v) { return vector ? widen(v, lanes) : v; };
  auto larger = [&](Value a, Value b) -> Value {
    return arith::MaxSIOp::create(builder, location, a, b);
  };
  auto less = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, location, a, b);
  };
  Value extent = size(length);
  Value at = vector ? toVector(index, lanes) : index.start;
  Value zero = number(constant(0));
  Value last = number(sub(extent, constant(1)));
  // The remainder that is not negative.
  auto within = [&](Value period) -> Value {
    Value rest = arith::RemSIOp::create(builder, location, at, period);
    Value negative = arith::CmpIOp::create(
        builder, location, arith::CmpIPredicate::slt, rest, zero);
    return arith::SelectOp::create(
        builder, location, negative,
        arith::AddIOp::create(builder, location, rest, period), rest);
  };
  switch (op.getMode()) {
  case ts::PadMode::edge:
    at = arith::MinSIOp::create(builder, location, larger(at, zero), last);
    break;
  case ts::PadMode::reflect: {
    auto shorter = [&](Dim pad) {
      std::optional<int64_t> rest = (length - pad).asConstant();
      return rest && *rest > 0;
    };
    if (shorter(ts::dimsOf(op.getLow())[dim]) &&
        shorter(ts::dimsOf(op.getHigh())[dim])) {
      // One mirror on each side, without a division.
      at = less(last, larger(at, less(zero, at)));
      at = less(last, larger(at, less(zero, at)));
      at = larger(at, zero); // lanes behind the row
      break;
    }
    // Distance within a period of 2 * (n - 1), mirrored in its second half.
    Value period =
        number(max(mul(sub(extent, constant(1)), constant(2)), constant(1)));
    at = within(period);
    Value beyond = arith::CmpIOp::create(builder, location,
                                         arith::CmpIPredicate::sgt, at, last);
    at = arith::SelectOp::create(builder, location, beyond, less(period, at),
                                 at);
    break;
  }
  case ts::PadMode::wrap:
    at = within(number(extent));
    break;
  case ts::PadMode::constant:
    break;
  }
  return vector ? LaneIndex{{}, 0, at} : LaneIndex{at};
}

/// Pads that repeat elements. Lanes that follow each other and all lie in the
/// input, as most of a long row do, are read as they lie.
Value ElementEmitter::emitFoldedPad(ts::PadOp op, const Coord &coord) {
  Coord inner = coord;
  SmallVector<unsigned> byLane;
  Value inside; // whether all lanes are
  for (unsigned i = 0; i < coord.dims.size(); ++i) {
    Dim low = ts::dimsOf(op.getLow())[i];
    if (low.isConstant(0) && ts::dimsOf(op.getHigh())[i].isConstant(0))
      continue;
    LaneIndex index = offsetIndex(coord.dims[i], low * -1, coord.lanes);
    if (target.simt || index.perLane || index.runs || index.step != 1) {
      inner.dims[i] = foldedPad(op, i, index, coord.lanes);
      continue;
    }
    inner.dims[i] = index;
    byLane.push_back(i);
    auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) {
      Value holds = arith::CmpIOp::create(builder, location, predicate, a, b);
      inside =
          inside
              ? Value(arith::AndIOp::create(builder, location, inside, holds))
              : holds;
    };
    compare(arith::CmpIPredicate::sge, index.start, constant(0));
    compare(arith::CmpIPredicate::sle, index.start,
            sub(size(ts::dimOf(op.getInput(), i)), constant(coord.lanes)));
  }
  auto read = [&] { return emit(op.getInput(), inner); };
  if (!inside)
    return read();
  return ifElse(inside, read, [&] {
    for (unsigned i : byLane)
      inner.dims[i] = foldedPad(op, i, inner.dims[i], coord.lanes);
    return emit(op.getInput(), inner);
  });
}

Value ElementEmitter::emitPad(ts::PadOp op, const Coord &coord) {
  if (op.getMode() != ts::PadMode::constant)
    return emitFoldedPad(op, coord);
  SmallVector<Dim> dims = ts::dimsOf(op.getInput()),
                   low = ts::dimsOf(op.getLow()),
                   high = ts::dimsOf(op.getHigh());
  Coord inner = coord;
  Value uniform, varying;     // conditions that an element lies in the input
  int64_t sharedBy = laneRun; // lanes with one value of `varying`
  auto both = [&](Value a, Value b) -> Value {
    return a ? Value(arith::AndIOp::create(builder, location, a, b)) : b;
  };
  for (size_t i = 0; i < dims.size(); ++i) {
    if (low[i].isConstant(0) && high[i].isConstant(0))
      continue;
    LaneIndex index = offsetIndex(coord.dims[i], low[i] * -1, coord.lanes);
    Value extent = size(dims[i]);
    inner.dims[i] = index;
    // 0 <= i < n is one unsigned comparison.
    auto inside = arith::CmpIPredicate::ult;
    if (index.isUniform()) {
      uniform = both(uniform, arith::CmpIOp::create(builder, location, inside,
                                                    index.start, extent));
    } else {
      auto [condition, shared] = below(index, dims[i], coord.lanes);
      varying = both(varying, condition);
      sharedBy = std::min(sharedBy, shared);
    }
  }
  Coord scalar;
  auto padding = [&]() -> Value {
    return widen(emit(op.getValue(), scalar), coord.lanes);
  };
  auto read = [&]() -> Value {
    if (!varying)
      return emit(op.getInput(), inner);
    inner.restrict(inner.mask ? Value(arith::AndIOp::create(
                                    builder, location, inner.mask, varying))
                              : varying,
                   sharedBy);
    Value value = emit(op.getInput(), inner);
    Value outside = value ? padding() : Value();
    if (!outside)
      return {};
    return arith::SelectOp::create(builder, location, varying, value, outside);
  };
  return uniform ? ifElse(uniform, read, padding) : read();
}

Value ElementEmitter::emitConcat(ts::ConcatOp op, const Coord &coord) {
  unsigned axis = op.getDim();
  LaneIndex index = withRuns(coord.dims[axis], coord.lanes);
  Dim zero = Dim::constant(op.getContext(), 0);
  SmallVector<Dim> begins{zero};
  for (Value input : op.getInputs())
    begins.push_back(begins.back() + ts::dimOf(input, axis));
  // A run that no boundary can cut lies in one operand altogether.
  bool whole = index.isUniform();
  if (!whole && !index.perLane && index.step == 1) {
    whole = index.multipleOf % coord.lanes == 0;
    for (Dim begin : ArrayRef<Dim>(begins).drop_front().drop_back())
      whole &= begin.knownDivisor() % coord.lanes == 0;
  }
  auto shifted = [&](unsigned i) {
    Coord inner = coord;
    inner.dims[axis] = offsetIndex(index, begins[i] * -1, coord.lanes);
    return inner;
  };
  if (whole) {
    // Halves of halves, so that many operands do not nest deeply.
    std::function<Value(unsigned, unsigned)> among =
        [&](unsigned first, unsigned end) -> Value {
      if (end - first == 1)
        return emit(op.getInputs()[first], shifted(first));
      unsigned middle = (first + end) / 2;
      return ifElse(
          less(index.start, size(begins[middle])),
          [&]() { return among(first, middle); },
          [&]() { return among(middle, end); });
    };
    return among(0, op.getInputs().size());
  }
  // From the last one back: each is used before the next one is read, so that
  // no more than two are live however many there are.
  Value result;
  for (unsigned i = op.getInputs().size(); i-- > 0;) {
    Coord inner = shifted(i);
    auto [inside, shared] = below(
        inner.dims[axis], ts::dimOf(op.getInputs()[i], axis), coord.lanes);
    inner.restrict(coord.mask ? Value(arith::AndIOp::create(builder, location,
                                                            coord.mask, inside))
                              : inside,
                   shared);
    Value mine = emit(op.getInputs()[i], inner);
    if (!mine)
      return {};
    result = result ? Value(arith::SelectOp::create(builder, location, inside,
                                                    mine, result))
                    : mine;
  }
  return result;
}

LaneIndex ElementEmitter::checkedIndex(Value value, int64_t lanes, Dim extent,
                                       const Coord &coord) {
  bool vector = isa<VectorType>(value.getType());
  Type type = builder.getIndexType();
  if (vector)
    type = VectorType::get(lanes, type);
  auto number = [&](Value v) { return vector ? widen(v, lanes) : v; };
  Value given = arith::IndexCastOp::create(builder, location, type, value);
  Value n = number(size(extent));
  auto isOutside = [&](Value index) -> Value {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::uge,
                                 index, n);
  };
  auto anyOf = [&](Value lanesOutside) -> Value {
    return vector ? vector::ReductionOp::create(builder, location,
                                                vector::CombiningKind::OR,
                                                lanesOutside)
                  : lanesOutside;
  };
  auto corrected = [&]() -> Value {
    Value zero = number(constant(0));
    Value negative = arith::CmpIOp::create(
        builder, location, arith::CmpIPredicate::slt, given, zero);
    Value index = arith::SelectOp::create(
        builder, location, negative,
        arith::AddIOp::create(builder, location, given, n), given);
    Value outside = isOutside(index), report = outside;
    if (vector) {
      if (coord.valid)
        report = arith::AndIOp::create(builder, location, report,
                                       laneMask(lanes, coord.valid));
      if (coord.mask)
        report = arith::AndIOp::create(builder, location, report, coord.mask);
    } else if (coord.mask && !isa<VectorType>(coord.mask.getType())) {
      report = arith::AndIOp::create(builder, location, report, coord.mask);
    }
    tile::SetStatusOp::create(builder, location, kernelIndexOutOfRange,
                              anyOf(report));
    return arith::SelectOp::create(builder, location, outside, zero, index);
  };
  // A CPU looks at signs and ends only where an index needs it.
  Value index = target.simt ? corrected()
                            : ifElse(anyOf(isOutside(given)), corrected,
                                     [&] { return given; });
  return vector ? LaneIndex{{}, 0, index} : LaneIndex{index};
}

/// The value of an index tensor at a coordinate, as scalar where uniform.
static Value emitIndex(ElementEmitter &emitter, Value tensor, Coord coord) {
  if (coord.lanes && coord.isUniform() && !coord.mask) {
    coord.lanes = 0;
    coord.valid = {};
  }
  return emitter.emit(tensor, coord);
}

/// The input at a coordinate with checked indices into dims of `extents`
/// elements. Zero where one of them has none: the index was reported, and no
/// element is there to be read instead.
static Value readAtIndex(ElementEmitter &e, Value input, const Coord &coord,
                         ArrayRef<Dim> extents) {
  Value some;
  for (Dim extent : extents) {
    std::optional<int64_t> known = extent.asConstant();
    if (known && *known > 0)
      continue;
    Value has = e.less(e.constant(0), e.size(extent));
    some = some ? arith::AndIOp::create(e.builder, e.location, some, has) : has;
  }
  if (!some)
    return e.emit(input, coord);
  Type type;
  return e.select(
      some,
      [&] {
        Value value = e.emit(input, coord);
        type = value ? value.getType() : Type();
        return value;
      },
      [&]() -> Value {
        return arith::ConstantOp::create(e.builder, e.location,
                                         e.builder.getZeroAttr(type));
      });
}

Value ElementEmitter::emitGather(ts::GatherOp op, const Coord &coord) {
  unsigned axis = op.getDim(), rank = ts::rankOf(op.getIndices());
  Coord at = coord;
  at.dims.assign(coord.dims.begin() + axis, coord.dims.begin() + axis + rank);
  Value value = emitIndex(*this, op.getIndices(), at);
  if (!value)
    return {};
  Coord inner = coord;
  Dim extent = ts::dimOf(op.getInput(), axis);
  inner.dims.erase(inner.dims.begin() + axis, inner.dims.begin() + axis + rank);
  LaneIndex index = checkedIndex(value, coord.lanes, extent, coord);
  if (index.perLane) {
    index.sharedBy = laneRun;
    for (const LaneIndex &of : at.dims)
      index.sharedBy = std::min<int64_t>(index.sharedBy, sharedBy(of));
  }
  inner.dims.insert(inner.dims.begin() + axis, index);
  return readAtIndex(*this, op.getInput(), inner, extent);
}

Value ElementEmitter::emitGatherElements(ts::GatherElementsOp op,
                                         const Coord &coord) {
  Value value = emitIndex(*this, op.getIndices(), coord);
  if (!value)
    return {};
  Coord inner = coord;
  Dim extent = ts::dimOf(op.getInput(), op.getDim());
  inner.dims[op.getDim()] = checkedIndex(value, coord.lanes, extent, coord);
  return readAtIndex(*this, op.getInput(), inner, extent);
}

Value ElementEmitter::emitGatherNd(ts::GatherNdOp op, const Coord &coord) {
  unsigned indexRank = ts::rankOf(op.getIndices()), batch = op.getBatchDims();
  int64_t depth = *ts::dimsOf(op.getIndices()).back().asConstant();
  Coord inner = coord;
  inner.dims.assign(coord.dims.begin(), coord.dims.begin() + batch);
  for (int64_t k = 0; k < depth; ++k) {
    Coord at = coord;
    at.dims.assign(coord.dims.begin(), coord.dims.begin() + indexRank - 1);
    at.dims.push_back({constant(k)});
    Value value = emitIndex(*this, op.getIndices(), at);
    if (!value)
      return {};
    inner.dims.push_back(checkedIndex(
        value, coord.lanes, ts::dimOf(op.getInput(), batch + k), coord));
  }
  inner.dims.append(coord.dims.begin() + indexRank - 1, coord.dims.end());
  return readAtIndex(*this, op.getInput(), inner,
                     ArrayRef(ts::dimsOf(op.getInput())).slice(batch, depth));
}

} // namespace knapper
