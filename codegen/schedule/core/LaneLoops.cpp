#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedule.h"

using namespace mlir;

namespace knapper {

int64_t lanesOver(ts::Dim run, int64_t most) {
  while (most > 4 && most > representative(run))
    most /= 2;
  if (std::optional<int64_t> number = run.asConstant())
    for (int64_t lanes = most; lanes >= 16; lanes /= 2)
      if (*number % lanes == 0)
        return lanes;
  return most;
}

SmallVector<Value> forEach(
    ElementEmitter &emitter, Value begin, Value end, ValueRange carried,
    llvm::function_ref<FailureOr<SmallVector<Value>>(Value, ValueRange)> body,
    LogicalResult &status, int64_t step) {
  OpBuilder &b = emitter.builder;
  auto loop = scf::ForOp::create(
      b, emitter.location, begin, end, emitter.constant(step), carried,
      [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  emitter.scoped([&] {
    FailureOr<SmallVector<Value>> next =
        body(loop.getInductionVar(), loop.getRegionIterArgs());
    if (failed(next)) {
      status = failure();
      next = SmallVector<Value>(loop.getRegionIterArgs());
    }
    if (loop.getBody()->empty() ||
        !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>())
      scf::YieldOp::create(b, emitter.location, *next);
  });
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> forLanes(
    ElementEmitter &emitter, Value begin, Value end, int64_t lanes,
    bool divides, ValueRange carried,
    llvm::function_ref<FailureOr<SmallVector<Value>>(Value, Value, ValueRange)>
        body,
    LogicalResult &status) {
  OpBuilder &b = emitter.builder;
  Value whole = end;
  if (!divides) {
    Value length = emitter.sub(end, begin);
    whole = emitter.sub(end, emitter.rem(length, emitter.constant(lanes)));
  }
  SmallVector<Value> results = forEach(
      emitter, begin, whole, carried,
      [&](Value i, ValueRange values) { return body(i, Value(), values); },
      status, lanes);
  if (divides)
    return results;
  Value rest = emitter.less(whole, end);
  auto edge = scf::IfOp::create(b, emitter.location, carried.getTypes(), rest,
                                /*withElseRegion=*/!carried.empty());
  {
    OpBuilder::InsertionGuard guard(b);
    Block &then = edge.getThenRegion().front();
    if (!then.empty() && then.back().hasTrait<OpTrait::IsTerminator>())
      then.back().erase();
    b.setInsertionPointToEnd(&then);
    emitter.scoped([&] {
      FailureOr<SmallVector<Value>> next =
          body(whole, emitter.sub(end, whole), results);
      if (failed(next)) {
        status = failure();
        next = results;
      }
      scf::YieldOp::create(b, emitter.location, *next);
    });
    if (!carried.empty()) {
      Block &otherwise = edge.getElseRegion().front();
      if (!otherwise.empty() &&
          otherwise.back().hasTrait<OpTrait::IsTerminator>())
        otherwise.back().erase();
      b.setInsertionPointToEnd(&otherwise);
      scf::YieldOp::create(b, emitter.location, results);
    }
  }
  return SmallVector<Value>(edge.getResults());
}

LogicalResult forEach(ElementEmitter &emitter, Value begin, Value end,
                      llvm::function_ref<LogicalResult(Value)> body,
                      int64_t step) {
  LogicalResult status = success();
  forEach(
      emitter, begin, end, {},
      [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
        if (failed(body(i)))
          return failure();
        return SmallVector<Value>();
      },
      status, step);
  return status;
}

LogicalResult forLanes(ElementEmitter &emitter, Value begin, Value end,
                       int64_t lanes, bool divides,
                       llvm::function_ref<LogicalResult(Value, Value)> body) {
  LogicalResult status = success();
  forLanes(
      emitter, begin, end, lanes, divides, {},
      [&](Value i, Value valid, ValueRange) -> FailureOr<SmallVector<Value>> {
        if (failed(body(i, valid)))
          return failure();
        return SmallVector<Value>();
      },
      status);
  return status;
}

SmallVector<Value>
repeatWhile(ElementEmitter &emitter, ValueRange carried,
            llvm::function_ref<Value(ValueRange)> condition,
            llvm::function_ref<FailureOr<SmallVector<Value>>(ValueRange)> body,
            LogicalResult &status) {
  OpBuilder &b = emitter.builder;
  Location loc = emitter.location;
  auto loop = scf::WhileOp::create(b, loc, carried.getTypes(), carried);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Location> locations(carried.size(), loc);
  Block *before =
      b.createBlock(&loop.getBefore(), {}, carried.getTypes(), locations);
  emitter.scoped([&] {
    Value more = condition(before->getArguments());
    scf::ConditionOp::create(b, loc, more, before->getArguments());
  });
  Block *after =
      b.createBlock(&loop.getAfter(), {}, carried.getTypes(), locations);
  emitter.scoped([&] {
    FailureOr<SmallVector<Value>> next = body(after->getArguments());
    if (failed(next)) {
      status = failure();
      next = SmallVector<Value>(after->getArguments());
    }
    scf::YieldOp::create(b, loc, *next);
  });
  return SmallVector<Value>(loop.getResults());
}

void transposeBlock(ElementEmitter &emitter, int64_t size, Value from, Value at,
                    Value stride, Value runs, Value elements, Value to,
                    llvm::function_ref<Value(int64_t r)> place) {
  OpBuilder &b = emitter.builder;
  Location loc = emitter.location;
  auto type = VectorType::get(
      size * size, cast<tile::BufferType>(from.getType()).getElementType());
  Value read = tile::LoadRowsOp::create(b, loc, type, from, at, stride, runs,
                                        elements, b.getI64IntegerAttr(size));
  Value transposed =
      tile::TransposeOp::create(b, loc, type, read, b.getI64IntegerAttr(size));
  for (int64_t r = 0; r < size; ++r) {
    Value offset = place(r);
    Value row = vector::ExtractStridedSliceOp::create(
        b, loc, transposed, ArrayRef<int64_t>{r * size},
        ArrayRef<int64_t>{size}, ArrayRef<int64_t>{1});
    tile::StoreOp::create(b, loc, row, to, offset);
  }
}

Value neutralElement(ElementEmitter &emitter, ts::ReduceKind kind, Type element,
                     bool isUnsigned, int64_t lanes) {
  using ts::ReduceKind;
  switch (kind) {
  case ReduceKind::add:
  case ReduceKind::logical_or:
    return emitter.splat(element, lanes, 0);
  case ReduceKind::mul:
    return emitter.splat(element, lanes, 1);
  case ReduceKind::logical_and:
    return emitter.splat(element, lanes, -1); // true in one bit
  case ReduceKind::max:
  case ReduceKind::min:
    break;
  }
  bool least = kind == ReduceKind::max;
  if (isa<FloatType>(element)) {
    double infinity = std::numeric_limits<double>::infinity();
    return emitter.splat(element, lanes, least ? -infinity : infinity);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt value = isUnsigned ? least ? APInt(width, 0) : APInt::getMaxValue(width)
                : least    ? APInt::getSignedMinValue(width)
                           : APInt::getSignedMaxValue(width);
  TypedAttr attr = emitter.builder.getIntegerAttr(element, value);
  if (lanes)
    attr = DenseElementsAttr::get(VectorType::get(lanes, element),
                                  Attribute(attr));
  return arith::ConstantOp::create(emitter.builder, emitter.location, attr);
}

vector::CombiningKind combiningKind(ts::ReduceKind kind, Type element,
                                    bool isUnsigned) {
  using K = vector::CombiningKind;
  bool isFloat = isa<FloatType>(element);
  switch (kind) {
  case ts::ReduceKind::add:
    return K::ADD;
  case ts::ReduceKind::mul:
    return K::MUL;
  case ts::ReduceKind::max:
    return isFloat ? K::MAXIMUMF : isUnsigned ? K::MAXUI : K::MAXSI;
  case ts::ReduceKind::min:
    return isFloat ? K::MINIMUMF : isUnsigned ? K::MINUI : K::MINSI;
  case ts::ReduceKind::logical_and:
    return K::AND;
  case ts::ReduceKind::logical_or:
    return K::OR;
  }
  return K::ADD;
}

Value combineElements(ElementEmitter &emitter, ts::ReduceKind kind, Value a,
                      Value x, bool isUnsigned) {
  using ts::ReduceKind;
  OpBuilder &b = emitter.builder;
  Location loc = emitter.location;
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(a.getType()));
  switch (kind) {
  case ReduceKind::add:
    return isFloat ? Value(arith::AddFOp::create(b, loc, a, x))
                   : Value(arith::AddIOp::create(b, loc, a, x));
  case ReduceKind::mul:
    return isFloat ? Value(arith::MulFOp::create(b, loc, a, x))
                   : Value(arith::MulIOp::create(b, loc, a, x));
  case ReduceKind::max:
    if (isFloat)
      return arith::MaximumFOp::create(b, loc, a, x);
    return isUnsigned ? Value(arith::MaxUIOp::create(b, loc, a, x))
                      : Value(arith::MaxSIOp::create(b, loc, a, x));
  case ReduceKind::min:
    if (isFloat)
      return arith::MinimumFOp::create(b, loc, a, x);
    return isUnsigned ? Value(arith::MinUIOp::create(b, loc, a, x))
                      : Value(arith::MinSIOp::create(b, loc, a, x));
  case ReduceKind::logical_and:
    return arith::AndIOp::create(b, loc, a, x);
  case ReduceKind::logical_or:
    return arith::OrIOp::create(b, loc, a, x);
  }
  return {};
}

} // namespace knapper
