#include "codegen/schedule/core/Epilogue.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// The reindexing ops on the way from `hero` to `value`; nothing if there is no
/// way, failure if it leads through an op that cannot be followed.
FailureOr<std::optional<SmallVector<Operation *>>>
findWay(Value hero, Value value,
        DenseMap<Value, std::optional<SmallVector<Operation *>>> &known) {
  if (value == hero)
    return {SmallVector<Operation *>()};
  if (auto it = known.find(value); it != known.end())
    return it->second;
  std::optional<SmallVector<Operation *>> way;
  Operation *op = value.getDefiningOp();
  if (op)
    for (Value operand : op->getOperands()) {
      auto inner = findWay(hero, operand, known);
      if (failed(inner))
        return failure();
      if (!*inner)
        continue;
      bool moves = isa<ts::ReshapeOp, ts::TransposeOp>(op);
      if (!moves && !isa<ts::ElementwiseOpInterface, ts::DimCastOp>(op)) {
        op->emitOpError("cannot follow the kernel's hero");
        return failure();
      }
      if (moves)
        (*inner)->push_back(op);
      if (way && *way != **inner) {
        op->emitOpError("meets the kernel's hero in two arrangements");
        return failure();
      }
      way = std::move(*inner);
    }
  known[value] = way;
  return way;
}

} // namespace

FailureOr<Epilogue> Epilogue::create(ts::KernelOp kernel, Value hero) {
  Epilogue epilogue;
  epilogue.kernel = kernel;
  epilogue.hero = hero;
  DenseMap<Value, std::optional<SmallVector<Operation *>>> known;
  for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
    auto way = findWay(hero, value, known);
    if (failed(way))
      return failure();
    if (!*way) {
      kernel.emitOpError("result ") << i << " does not depend on its hero";
      return failure();
    }
    epilogue.ways.push_back(std::move(**way));
  }
  return epilogue;
}

Coord Epilogue::follow(ElementEmitter &e, unsigned i,
                       const Coord &coord) const {
  Coord at = coord;
  for (Operation *op : ways[i]) {
    if (auto transpose = dyn_cast<ts::TransposeOp>(op)) {
      Coord next = at;
      next.dims.clear();
      for (int64_t dim : transpose.getPermutation())
        next.dims.push_back(at.dims[dim]);
      at = std::move(next);
    } else {
      at = e.reshape(at, ts::dimsOf(op->getOperand(0)),
                     ts::dimsOf(op->getResult(0)));
    }
  }
  return at;
}

/// Runs `body` while the emitter knows the hero's value at `coord` to be
/// `tile`.
template <typename Body>
static auto withHero(ElementEmitter &e, Value hero, Value tile,
                     const Coord &coord, Body body) {
  auto outer = e.provide;
  // What is the same in every lane (one lane; a dim of size 1 that the lanes
  // exceed) is asked for as a scalar: the first lane always holds it.
  auto type = dyn_cast<VectorType>(tile.getType());
  bool one = type && (type.getNumElements() == 1 || coord.lanes);
  e.provide = [&](Value tensor, const Coord &at) -> Value {
    if (tensor == hero && at.lanes)
      return e.widen(tile, at.lanes);
    if (tensor == hero)
      return one ? vector::ExtractOp::create(
                       e.builder, e.location, tile,
                       SmallVector<int64_t>(type.getRank(), 0))
                 : tile;
    return outer ? outer(tensor, at) : Value();
  };
  auto result = body();
  e.provide = outer;
  return result;
}

LogicalResult Epilogue::store(ElementEmitter &e, Value tile,
                              const Coord &coord) const {
  auto results = const_cast<Epilogue *>(this)->kernel.yield().getValues();
  return withHero(e, hero, tile, coord, [&]() -> LogicalResult {
    for (auto [i, value] : llvm::enumerate(results)) {
      Coord at = follow(e, i, coord);
      Value result = e.emit(value, at);
      if (!result)
        return failure();
      e.store(e.widen(result, at.lanes), e.outputBuffer(i), value.getType(),
              at);
    }
    return success();
  });
}

Value Epilogue::value(ElementEmitter &e, Value tile, const Coord &coord) const {
  Value result = const_cast<Epilogue *>(this)->kernel.yield().getValues()[0];
  return withHero(e, hero, tile, coord, [&]() -> Value {
    Coord at = follow(e, 0, coord);
    Value value = e.emit(result, at);
    return value ? e.widen(value, at.lanes) : Value();
  });
}

LogicalResult Epilogue::yield(ElementEmitter &e, Value value,
                              const Coord &coord, bool stored) const {
  Value result;
  if (stored)
    result = this->value(e, value, coord);
  if (stored ? !result : failed(store(e, value, coord)))
    return failure();
  tile::YieldOp::create(e.builder, e.location, result);
  return success();
}

bool Epilogue::keepsPlaces() const {
  return ways.size() == 1 && llvm::none_of(ways[0], [](Operation *op) {
           return isa<ts::TransposeOp>(op);
         });
}

int64_t Epilogue::runDivisor() const {
  int64_t divisor = 0;
  for (const SmallVector<Operation *> &way : ways)
    for (Operation *op : way)
      if (isa<ts::ReshapeOp>(op))
        if (std::optional<int64_t> last =
                ts::dimsOf(op->getResult(0)).back().asConstant())
          divisor = std::gcd(divisor, *last);
  return divisor;
}

} // namespace knapper
