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

bool isBelowItsMaximum(Value tensor) {
  auto difference = tensor.getDefiningOp<ts::SubOp>();
  auto broadcast = difference
                       ? difference.getRhs().getDefiningOp<ts::BroadcastOp>()
                       : ts::BroadcastOp();
  auto max = broadcast ? broadcast.getInput().getDefiningOp<ts::ReduceOp>()
                       : ts::ReduceOp();
  if (!max || max.getKind() != ts::ReduceKind::max ||
      max.getInput() != difference.getLhs())
    return false;
  // Each maximum goes back to the elements that it was taken of.
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < ts::rankOf(max.getInput()); ++d)
    if (!llvm::is_contained(max.getDims(), d))
      kept.push_back(d);
  return ArrayRef<int64_t>(broadcast.getDims()) == ArrayRef<int64_t>(kept);
}

bool ElementEmitter::expTakesPositive(Type type) const {
  constexpr int64_t wholeRegister = 16;
  auto vector = dyn_cast<VectorType>(type);
  return target.wordTable && target.powerScale && vector &&
         vector.getElementType().isF32() &&
         vector.getShape().back() % wholeRegister == 0;
}

/// exp(x) = 2^t with t = x log2(e) for x <= 0 or NaN. The rounding of t, whose
/// size grows with x, is made up for unless the result is rounded far more.
static Value expBySpecialUnit(ElementEmitter &e, Value x, bool half) {
  OpBuilder &b = e.builder;
  Location loc = e.location;
  auto type = dyn_cast<VectorType>(x.getType());
  auto number = [&](double value) {
    return e.splat(b.getF32Type(), type ? type.getDimSize(0) : 0, value);
  };
  constexpr double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;
  const double upper = static_cast<float>(log2e);
  if (half)
    return tile::Exp2Op::create(
        b, loc, x.getType(), arith::MulFOp::create(b, loc, x, number(upper)));
  // Far below the least number, where products stay finite.
  Value least = number(-200);
  Value isLess =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, least);
  x = arith::SelectOp::create(b, loc, isLess, least, x);
  Value t = arith::MulFOp::create(b, loc, x, number(upper));
  Value minus = arith::NegFOp::create(b, loc, t);
  Value rest = math::FmaOp::create(b, loc, x, number(upper), minus);
  rest = math::FmaOp::create(b, loc, x, number(log2e - upper), rest);
  rest = arith::MulFOp::create(b, loc, rest, number(ln2));
  Value power = tile::Exp2Op::create(b, loc, x.getType(), t);
  return math::FmaOp::create(b, loc, power, rest, power);
}

Value ElementEmitter::expNonPositive(Value x, bool half) {
  if (target.simt && getElementTypeOrSelf(x.getType()).isF32())
    return expBySpecialUnit(*this, x, half);
  auto lookup = [&](Value index, ArrayRef<int32_t> table) -> Value {
    return tile::LookupOp::create(builder, location, index.getType(), index,
                                  table);
  };
  auto scaleByPower = [&](Value value, Value power) -> Value {
    return tile::ScaleByPowerOp::create(builder, location, value.getType(),
                                        value, power);
  };
  if (expTakesPositive(x.getType()))
    return buildExpBelowOverflow(builder, location, x, lookup, scaleByPower);
  return buildExpNonPositive(builder, location, x);
}

Value ElementEmitter::larger(Value a, Value v) {
  // One instruction there, which takes `a` for a NaN too.
  if (target.simt && getElementTypeOrSelf(v.getType()).isF32())
    return arith::MaxNumFOp::create(builder, location, v, a);
  Value above =
      arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OGT, v, a);
  return arith::SelectOp::create(builder, location, above, v, a);
}

/// Whether elements are rounded to 16 bits, or only what up to `most` products,
/// selections and conversions one behind the other make of them.
static bool isRoundedToHalf(Value tensor, unsigned most = 3) {
  Type element = ts::elementTypeOf(tensor);
  if (element.isF16() || element.isBF16())
    return true;
  return most > 0 && element.isF32() && !tensor.use_empty() &&
         llvm::all_of(tensor.getUsers(), [&](Operation *user) {
           return isa<ts::MulOp, ts::SelectOp, ts::ConvertOp>(user) &&
                  isa<FloatType>(ts::elementTypeOf(user->getResult(0))) &&
                  isRoundedToHalf(user->getResult(0), most - 1);
         });
}

/// Whether a quotient is read by functions alone that a rounding more does not
/// move to another value of 16 bits: a score over its cap. The cap is a number
/// whose reciprocal is neither infinite nor flushed: 0 over a denormal stays 0.
static bool feedsSaturation(ts::DivOp divide) {
  constexpr double least = 0x1p-126;
  double by = std::abs(splatOf(divide->getOperand(1)).value_or(0));
  return by >= least && by <= 1 / least &&
         llvm::all_of(divide->getUsers(), [](Operation *user) {
           return isa<ts::TanhOp, ts::SigmoidOp>(user) &&
                  isRoundedToHalf(user->getResult(0));
         });
}

/// Mish: x tanh(softplus(x)), whose logarithm and tangent cancel.
static ts::SoftplusOp softplusUnderTanh(Operation *op) {
  auto tanh = dyn_cast<ts::TanhOp>(op);
  return tanh ? tanh.getInput().getDefiningOp<ts::SoftplusOp>()
              : ts::SoftplusOp();
}

/// A sine, cosine or root whose result is rounded to 16 bits, as `expandMath`
/// and the GPU's lowering take it.
static Value buildFor16Bits(OpBuilder &b, Operation *op, Value x) {
  auto flags = arith::FastMathFlags::afn;
  if (ts::elementTypeOf(op->getOperand(0)).isF16())
    flags = flags | arith::FastMathFlags::ninf;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ts::SinOp) {
        return math::SinOp::create(b, op->getLoc(), x, flags);
      })
      .Case([&](ts::CosOp) {
        return math::CosOp::create(b, op->getLoc(), x, flags);
      })
      .Case([&](ts::SqrtOp) {
        return math::SqrtOp::create(b, op->getLoc(), x,
                                    arith::FastMathFlags::afn);
      })
      .Default([&](Operation *) {
        return math::RsqrtOp::create(b, op->getLoc(), x,
                                     arith::FastMathFlags::afn);
      });
}

Value ElementEmitter::compute(Value tensor, const Coord &coord) {
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return load(inputBuffer(argument), tensor.getType(), coord);
  Operation *op = tensor.getDefiningOp();
  bool gpu = target.simt, half = gpu && isRoundedToHalf(tensor);
  if (ts::SoftplusOp softplus = softplusUnderTanh(op)) {
    Value x = emit(softplus.getInput(), coord);
    if (!x)
      return {};
    return (half ? buildTanhOfSoftplusByExp2
                 : buildTanhOfSoftplus)(builder, location, x);
  }
  if (auto elementwise = dyn_cast<ts::ElementwiseOpInterface>(op)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(emit(operand, coord));
      if (!operands.back())
        return {};
    }
    // The target has a shorter form than the op's definition.
    if (auto gelu = dyn_cast<ts::GeluOp>(op)) {
      Value x = operands.front();
      if (gelu.getTanh())
        return (half ? buildGeluTanhByExp2 : buildGeluTanh)(builder, location,
                                                            x);
      return gpu ? buildGeluErfByExp2(builder, location, x, half)
                 : buildGeluErf(builder, location, x);
    }
    if (isa<ts::SigmoidOp>(op) && half)
      return buildSigmoidByExp2(builder, location, operands.front());
    if (isa<ts::PowOp>(op) && isRoundedToHalf(tensor) &&
        isa<FloatType>(ts::elementTypeOf(op->getOperand(1))))
      return math::PowFOp::create(builder, location, operands[0], operands[1],
                                  arith::FastMathFlags::afn);
    if ((isa<ts::SinOp, ts::CosOp>(op) && isRoundedToHalf(tensor)) ||
        (isa<ts::SqrtOp, ts::RsqrtOp>(op) && half))
      return buildFor16Bits(builder, op, operands.front());
    if (isa<ts::ExpOp>(op) && half &&
        getElementTypeOrSelf(operands.front().getType()).isF32())
      return expBySpecialUnit(*this, operands.front(), half);
    if (isa<ts::TanhOp>(op) && half)
      return buildTanhByExp2(builder, location, operands.front());
    if (isa<ts::Expm1Op>(op) && half)
      return buildExpm1ByExp2(builder, location, operands.front());
    if (isa<ts::SoftplusOp>(op))
      return (half ? buildSoftplusByExp2 : buildSoftplus)(builder, location,
                                                          operands.front());
    if (auto divide = dyn_cast<ts::DivOp>(op);
        divide && gpu && feedsSaturation(divide))
      return arith::DivFOp::create(builder, location, operands[0], operands[1],
                                   arith::FastMathFlags::arcp);
    if (isa<ts::ExpOp>(op) && isBelowItsMaximum(op->getOperand(0)))
      return expNonPositive(operands.front(), half);
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
