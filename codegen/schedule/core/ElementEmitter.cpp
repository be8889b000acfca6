#include "codegen/schedule/core/ElementEmitter.h"

#include "codegen/math/Math.h"
#include "codegen/schedule/core/ShallowMatmul.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/SymbolicValue.h"
#include "ir/tile/GridOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/Hashing.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

bool Coord::operator==(const Coord &other) const {
  if (lanes != other.lanes || valid != other.valid || mask != other.mask ||
      dims.size() != other.dims.size())
    return false;
  for (auto [a, b] : llvm::zip(dims, other.dims))
    if (a.start != b.start || a.step != b.step || a.perLane != b.perLane)
      return false;
  return true;
}

size_t Coord::hash() const {
  llvm::hash_code code = llvm::hash_combine(lanes, valid.getAsOpaquePointer(),
                                            mask.getAsOpaquePointer());
  for (const LaneIndex &i : dims)
    code = llvm::hash_combine(code, i.start.getAsOpaquePointer(), i.step,
                              i.perLane.getAsOpaquePointer());
  return code;
}

Type computeType(Type element) {
  if (element.isF16() || element.isBF16())
    return Float32Type::get(element.getContext());
  return bufferType(element);
}

Type bufferType(Type element) {
  if (ts::isStorage(element))
    return IntegerType::get(element.getContext(), 8);
  if (element.isUnsignedInteger())
    return IntegerType::get(element.getContext(),
                            element.getIntOrFloatBitWidth());
  return element;
}

ElementEmitter::ElementEmitter(OpBuilder &builder, Location location,
                               tile::FuncOp function, ts::KernelOp kernel,
                               ArrayRef<std::string> symbols,
                               const TargetDesc &target)
    : builder(builder), location(location), function(function), kernel(kernel),
      target(target),
      entry(OpBuilder::atBlockBegin(&function.getBody().front())) {
  for (auto [i, name] : llvm::enumerate(symbols))
    symbolValues[name] = function.getKernelSymbol(i);
  // Constants and sizes go before this op, whatever is added at the end.
  entry.setInsertionPoint(arith::ConstantIndexOp::create(entry, location, 0));
  scopes.emplace_back();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value ElementEmitter::splat(Type element, int64_t lanes, double number) {
  TypedAttr scalar;
  if (isa<FloatType>(element))
    scalar = builder.getFloatAttr(element, number);
  else
    scalar = builder.getIntegerAttr(element, static_cast<int64_t>(number));
  if (lanes)
    scalar = DenseElementsAttr::get(VectorType::get(lanes, element),
                                    Attribute(scalar));
  return arith::ConstantOp::create(builder, location, scalar);
}

Value ElementEmitter::laneMask(int64_t lanes, Value valid) {
  auto type = VectorType::get(lanes, builder.getI32Type());
  SmallVector<int32_t> numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  Value lane = arith::ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  // Beyond the run any number of valid lanes means all.
  Value bounded = min(valid, constant(lanes));
  Value count = arith::IndexCastOp::create(builder, location,
                                           builder.getI32Type(), bounded);
  return arith::CmpIOp::create(
      builder, location, arith::CmpIPredicate::slt, lane,
      vector::BroadcastOp::create(builder, location, type, count));
}

Value ElementEmitter::widen(Value value, int64_t lanes) {
  if (!lanes || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(
      builder, location, VectorType::get(lanes, value.getType()), value);
}

Value ElementEmitter::ifElse(Value condition,
                             llvm::function_ref<Value()> onTrue,
                             llvm::function_ref<Value()> onFalse) {
  // The result type is known only after a branch was emitted, so both are
  // emitted into blocks first.
  auto emitBranch = [&](llvm::function_ref<Value()> branch, Region &region) {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&region);
    Value value = scoped(branch);
    if (value)
      scf::YieldOp::create(builder, location, value);
    return value;
  };
  Region thenRegion, elseRegion;
  // A detached block has no terminator's parent; the op adopts both below.
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.getInsertionBlock();
  auto point = builder.getInsertionPoint();
  Value a = emitBranch(onTrue, thenRegion);
  Value b = a ? emitBranch(onFalse, elseRegion) : Value();
  if (!a || !b)
    return {};
  builder.setInsertionPoint(block, point);
  auto op = scf::IfOp::create(builder, location, TypeRange(a.getType()),
                              condition, /*addThenBlock=*/false,
                              /*addElseBlock=*/false);
  op.getThenRegion().takeBody(thenRegion);
  op.getElseRegion().takeBody(elseRegion);
  return op.getResult(0);
}

Value ElementEmitter::inputBuffer(BlockArgument argument) {
  return function.getBuffer(argument.getArgNumber());
}
Value ElementEmitter::outputBuffer(unsigned result) {
  return function.getBuffer(kernel.getInputs().size() + result);
}

Value ElementEmitter::stateBuffer() {
  return function.getBuffer(kernel.getInputs().size() + kernel.getNumResults());
}

Value ElementEmitter::emit(Value tensor, const Coord &coord) {
  // The same value in every lane is computed once and spread.
  if (coord.lanes && coord.isUniform()) {
    Coord scalar = coord;
    scalar.lanes = 0;
    scalar.valid = {};
    scalar.mask = {};
    if (!coord.mask) {
      Value value = emit(tensor, scalar);
      return value ? widen(value, coord.lanes) : Value();
    }
  }
  if (provide)
    if (Value value = provide(tensor, coord))
      return value;
  Key key{tensor.getAsOpaquePointer(), coord};
  for (Memo &memo : llvm::reverse(scopes))
    if (auto it = memo.find(key); it != memo.end())
      return it->second;
  Value value = compute(tensor, coord);
  if (value)
    scopes.back().emplace(std::move(key), value);
  return value;
}

Value ElementEmitter::compute(Value tensor, const Coord &coord) {
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return load(inputBuffer(argument), tensor.getType(), coord);
  Operation *op = tensor.getDefiningOp();
  if (auto elementwise = dyn_cast<ts::ElementwiseOpInterface>(op)) {
    SmallVector<Value> operands;
    for (Value operand : operandsOfForm(op)) {
      operands.push_back(emit(operand, coord));
      if (!operands.back())
        return {};
    }
    if (Value value = shorterForm(op, operands))
      return value;
    return elementwise.buildElement(builder, location, operands);
  }
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<ts::ConstantOp>([&](auto o) { return emitConstant(o, coord); })
      .Case<ts::IotaOp>([&](auto o) { return emitIota(o, coord); })
      .Case<ts::SizeOp>([&](ts::SizeOp o) {
        Value value = arith::IndexCastOp::create(
            builder, location, builder.getI64Type(), size(o.getSize()));
        return widen(value, coord.lanes);
      })
      .Case<ts::DimCastOp>([&](auto o) { return emit(o.getInput(), coord); })
      .Case<ts::BroadcastOp, ts::TransposeOp, ts::SliceOp>([&](auto o) {
        return emit(o.getInput(), mapAffine(o.indexing().maps[0], coord));
      })
      .Case<ts::ReshapeOp>([&](auto o) { return emitReshape(o, coord); })
      .Case<ts::PadOp>([&](auto o) { return emitPad(o, coord); })
      .Case<ts::ConcatOp>([&](auto o) { return emitConcat(o, coord); })
      .Case<ts::GatherOp>([&](auto o) { return emitGather(o, coord); })
      .Case<ts::GatherElementsOp>(
          [&](auto o) { return emitGatherElements(o, coord); })
      .Case<ts::GatherNdOp>([&](auto o) { return emitGatherNd(o, coord); })
      .Case<ts::DotOp>(
          [&](auto o) { return emitShallowMatmul(*this, o, coord); })
      .Default([&](Operation *o) -> Value {
        o->emitOpError("cannot be computed element by element here");
        return {};
      });
}

ElementEmitter::Flat ElementEmitter::flatten(Type tensorType,
                                             const Coord &coord) {
  SmallVector<Dim> dims = ts::dimsOf(tensorType);
  Dim stride = Dim::constant(tensorType.getContext(), 1);
  LaneIndex sum{constant(0)};
  // A lane step along a dim of symbolic stride is not a number of elements, so
  // base and lane stride are summed apart.
  Value base = constant(0), laneStride;
  bool perLane = llvm::any_of(
      coord.dims, [](const LaneIndex &index) { return bool(index.perLane); });
  if (perLane && laneRun > 1) {
    LaneIndex offset{constant(0), 0, {}, 0};
    for (size_t i = dims.size(); i-- > 0; stride = stride * dims[i])
      offset = addIndex(offset, scaleIndex(coord.dims[i], stride, coord.lanes),
                        coord.lanes);
    if (!offset.runs)
      return {base, laneStride, toVector(offset, coord.lanes)};
    auto type = VectorType::get(coord.lanes, builder.getIndexType());
    Value first = arith::MulIOp::create(
        builder, location, offset.runs,
        vector::BroadcastOp::create(builder, location, type,
                                    constant(offset.run)));
    return {base, laneStride, first, false, offset.run};
  }
  bool contiguous = false;
  size_t leading = 0;
  Value position;
  if (!perLane)
    leading = leadingPosition(coord.dims, dims, position);
  for (size_t i = dims.size(); i-- > 0;) {
    const LaneIndex &index = coord.dims[i];
    if (i < leading) {
      if (i + 1 == leading)
        base = add(base, mul(position, size(stride)));
    } else if (perLane) {
      auto type = VectorType::get(coord.lanes, builder.getIndexType());
      Value part = toVector(index, coord.lanes);
      if (!stride.isConstant(1))
        part = arith::MulIOp::create(
            builder, location, part,
            vector::BroadcastOp::create(builder, location, type, size(stride)));
      sum.perLane = sum.perLane ? Value(arith::AddIOp::create(
                                      builder, location, sum.perLane, part))
                                : part;
    } else {
      base = add(base, mul(index.start, size(stride)));
      if (index.step) {
        contiguous = !laneStride && (stride * index.step).isConstant(1);
        Value part = size(stride * index.step);
        laneStride = laneStride ? add(laneStride, part) : part;
      }
    }
    stride = stride * dims[i];
  }
  return {base, laneStride, sum.perLane, contiguous};
}

Value ElementEmitter::perLaneOffsets(const Flat &flat, int64_t lanes) {
  return arith::AddIOp::create(builder, location, flat.perLane,
                               lanesInRun(flat.run, lanes));
}

Value ElementEmitter::load(Value buffer, Type tensorType, const Coord &coord) {
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  Flat flat = flatten(tensorType, coord);
  Value value;
  if (!coord.lanes) {
    if (coord.mask) {
      // Outside elements read as zero; their memory is not touched.
      value = ifElse(
          coord.mask,
          [&]() -> Value {
            return tile::LoadOp::create(builder, location, stored, buffer,
                                        flat.base);
          },
          [&]() { return splat(stored, 0, 0); });
    } else {
      value =
          tile::LoadOp::create(builder, location, stored, buffer, flat.base);
    }
  } else {
    auto type = VectorType::get(coord.lanes, stored);
    if (flat.perLane || coord.mask) {
      if (!flat.perLane)
        flat.perLane = arith::AddIOp::create(
            builder, location,
            vector::BroadcastOp::create(
                builder, location,
                VectorType::get(coord.lanes, builder.getIndexType()),
                flat.base),
            arith::MulIOp::create(
                builder, location, laneNumbers(coord.lanes),
                vector::BroadcastOp::create(
                    builder, location,
                    VectorType::get(coord.lanes, builder.getIndexType()),
                    flat.laneStride ? flat.laneStride : constant(0))));
      if (flat.run > 1 && coord.mask && coord.maskSharedBy < flat.run)
        flat = {flat.base, flat.laneStride, perLaneOffsets(flat, coord.lanes)};
      auto gather =
          tile::GatherOp::create(builder, location, type, buffer, flat.perLane);
      if (flat.run > 1)
        gather.setRun(flat.run);
      if (coord.valid)
        gather.getValidMutable().assign(coord.valid);
      if (coord.mask)
        gather.getMaskMutable().assign(coord.mask);
      value = gather;
    } else if (!flat.laneStride) {
      value = widen(
          tile::LoadOp::create(builder, location, stored, buffer, flat.base),
          coord.lanes);
    } else if (flat.contiguous) {
      value = tile::LoadOp::create(builder, location, type, buffer, flat.base,
                                   coord.valid);
    } else {
      auto strided = tile::LoadStridedOp::create(
          builder, location, type, buffer, flat.base, flat.laneStride);
      if (coord.valid)
        strided.getValidMutable().assign(coord.valid);
      value = strided;
    }
  }
  Type element = computeType(stored);
  if (element == stored)
    return value;
  Type wide =
      coord.lanes ? Type(VectorType::get(coord.lanes, element)) : element;
  return arith::ExtFOp::create(builder, location, wide, value);
}

Value ElementEmitter::asStored(Value value, Type stored, int64_t lanes) {
  if (computeType(stored) == stored)
    return value;
  Type narrow = lanes ? Type(VectorType::get(lanes, stored)) : stored;
  // What was only moved has its bits.
  auto wide = value.getDefiningOp<arith::ExtFOp>();
  if (wide && wide.getIn().getType() == narrow)
    return wide.getIn();
  return arith::TruncFOp::create(builder, location, narrow, value);
}

void ElementEmitter::combineInMemory(vector::CombiningKind kind, Value value,
                                     Value buffer, Type tensorType,
                                     const Coord &coord) {
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  Flat flat = flatten(tensorType, coord);
  assert(!flat.perLane && (!coord.lanes || flat.contiguous));
  tile::AtomicOp::create(
      builder, location,
      vector::CombiningKindAttr::get(builder.getContext(), kind),
      asStored(value, stored, coord.lanes), buffer, flat.base);
}

void ElementEmitter::store(Value value, Value buffer, Type tensorType,
                           const Coord &coord, bool nontemporal) {
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  value = asStored(value, stored, coord.lanes);
  Flat flat = flatten(tensorType, coord);
  if (!coord.lanes || (flat.contiguous && !coord.mask)) {
    tile::StoreOp::create(builder, location, value, buffer, flat.base,
                          coord.lanes ? coord.valid : Value(), 0, nontemporal);
    return;
  }
  if (flat.run > 1)
    flat.perLane = perLaneOffsets(flat, coord.lanes);
  if (!flat.perLane) {
    auto type = VectorType::get(coord.lanes, builder.getIndexType());
    flat.perLane = arith::AddIOp::create(
        builder, location,
        vector::BroadcastOp::create(builder, location, type, flat.base),
        arith::MulIOp::create(
            builder, location, laneNumbers(coord.lanes),
            vector::BroadcastOp::create(builder, location, type,
                                        flat.laneStride ? flat.laneStride
                                                        : constant(0))));
  }
  auto scatter =
      tile::ScatterOp::create(builder, location, value, buffer, flat.perLane);
  if (coord.valid)
    scatter.getValidMutable().assign(coord.valid);
  if (coord.mask)
    scatter.getMaskMutable().assign(coord.mask);
}

} // namespace knapper
