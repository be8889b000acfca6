// Accesses to global memory on GPUs.
#include "codegen/lower/gpu/GpuLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace knapper::lower {

// Buffers are 16-byte aligned, so what divides the offset divides the address.
static llvm::Align accessAlign(std::optional<int64_t> given, unsigned bytes,
                               uint64_t multiple, unsigned width) {
  uint64_t known = std::min<uint64_t>(16, multiple * bytes);
  return partAlign(std::max<int64_t>(given.value_or(bytes), known), bytes,
                   width);
}

void GpuLowering::when(llvm::Value *condition,
                       llvm::function_ref<void()> body) {
  llvm::BasicBlock *then = newBlock("when");
  llvm::BasicBlock *after = newBlock("after");
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Value *GpuLowering::when(llvm::Value *condition, llvm::Value *otherwise,
                               llvm::function_ref<llvm::Value *()> body) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::Value *value = nullptr;
  llvm::BasicBlock *end = nullptr;
  when(condition, [&] {
    value = body();
    end = b.GetInsertBlock();
  });
  llvm::PHINode *phi = b.CreatePHI(otherwise->getType(), 2);
  phi->addIncoming(value, end);
  phi->addIncoming(otherwise, before);
  return phi;
}

/// Whether both are computed alike from the same values. (Null: nothing.)
static bool isSame(Value x, Value y) {
  if (x == y)
    return true;
  Operation *a = x ? x.getDefiningOp() : nullptr;
  Operation *c = y ? y.getDefiningOp() : nullptr;
  return a && c && a->getNumRegions() == 0 && isMemoryEffectFree(a) &&
         OperationEquivalence::isEquivalentTo(
             a, c, [](Value p, Value q) { return success(isSame(p, q)); },
             nullptr, OperationEquivalence::IgnoreLocations);
}

// A row that the threads hold is read by every pass over it; where an edge cuts
// it, LLVM would not see that they read the same.
bool GpuLowering::loadedBefore(tile::LoadOp op) {
  auto argument = dyn_cast<BlockArgument>(op.getBuffer());
  if (!isa<tile::FuncOp>(op->getParentOp()) || !argument ||
      written[argument.getArgNumber()])
    return false;
  for (tile::LoadOp other : loads)
    if (other.getType() == op.getType() &&
        other.getBuffer() == op.getBuffer() &&
        isSame(other.getOffset(), op.getOffset()) &&
        isSame(other.getValid(), op.getValid()) &&
        isSame(other.getPad(), op.getPad())) {
      set(op.getResult(), Parts(parts(other.getResult())));
      return true;
    }
  loads.push_back(op);
  return false;
}

bool GpuLowering::isInside(unsigned part, Value valid) {
  IntegerAttr number;
  return matchPattern(valid, m_Constant(&number)) &&
         int64_t(part + 1) * threads * width <= number.getInt();
}

// A row that the function reads or writes as one tile. In loops and at the edge
// of a run of tiles, whose address most often is a multiple that only run time
// knows, the assembler spills a word for the occupancy it aims at.
bool GpuLowering::isUnaligned(Operation *op, const BufferRef &ref,
                              llvm::Align align) {
  return threads > 1 && width * ref.bytes == 16 && align.value() < 16 &&
         isa<tile::FuncOp>(op->getParentOp());
}

llvm::Value *GpuLowering::loadLanes(const BufferRef &ref, llvm::Value *pointer,
                                    llvm::Value *left, llvm::Value *lanes,
                                    llvm::Value *pad) {
  for (unsigned j = 0; j < width; ++j) {
    llvm::Value *lane =
        when(b.CreateICmpSGT(left, b.getInt64(j)), pad, [&]() -> llvm::Value * {
          return tag(b.CreateAlignedLoad(
                         ref.memory,
                         b.CreateConstInBoundsGEP1_64(ref.memory, pointer, j),
                         llvm::Align(ref.bytes)),
                     ref);
        });
    lanes = b.CreateInsertElement(lanes, lane, j);
  }
  return lanes;
}

void GpuLowering::storeLanes(const BufferRef &ref, llvm::Value *pointer,
                             llvm::Value *left, llvm::Value *value) {
  for (unsigned j = 0; j < width; ++j)
    when(b.CreateICmpSGT(left, b.getInt64(j)), [&] {
      tag(b.CreateAlignedStore(
              b.CreateExtractElement(value, j),
              b.CreateConstInBoundsGEP1_64(ref.memory, pointer, j),
              llvm::Align(ref.bytes)),
          ref);
    });
}

LogicalResult GpuLowering::rotateRow(tile::FuncOp func) {
  if (threads == 1)
    return success();
  Value offset, valid;
  int64_t size = 0;
  unsigned bytes = 0;
  for (Operation &op : func.getBody().front().without_terminator()) {
    Value from, there, tile;
    Type element;
    int64_t align = 0;
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      from = load.getOffset(), there = load.getValid(), tile = load.getResult();
      element = load.getBuffer().getType().getElementType();
      align = load.getAlignment().value_or(0);
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      from = store.getOffset(), there = store.getValid();
      tile = store.getValue();
      element = store.getBuffer().getType().getElementType();
      align = store.getAlignment().value_or(0);
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (dense && !dense.isSplat() && !dense.getElementType().isIndex() &&
          dense.getElementType().getIntOrFloatBitWidth() < 32)
        return success(); // no number stands for a lane before the row
      continue;
    } else {
      // What goes lane by lane, or takes all lanes in any order.
      if (op.getNumRegions() ||
          !isa<arith::ArithDialect, math::MathDialect, tile::TileDialect,
               vector::VectorDialect>(op.getDialect()) ||
          (isa<tile::TileDialect>(op.getDialect()) &&
           !isa<tile::ProgramIdOp, tile::Exp2Op>(op)) ||
          (isa<vector::VectorDialect>(op.getDialect()) &&
           !isa<vector::BroadcastOp, vector::ReductionOp>(op)))
        return success();
      continue;
    }
    auto type = dyn_cast<VectorType>(tile.getType());
    if (!type)
      continue;
    bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
    if (width * bytes != 16 || align >= 16 ||
        knownMultiple(from) * bytes % 16 == 0 || !there ||
        (offset && !(isSame(offset, from) && isSame(valid, there))))
      return success();
    offset = from, valid = there, size = type.getDimSize(0);
  }
  IntegerAttr known;
  if (!offset || !matchPattern(valid, m_Constant(&known)) ||
      known.getInt() + width - 1 > size)
    return success();
  std::function<LogicalResult(Value)> emit = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || values.contains(value))
      return success();
    for (Value operand : op->getOperands())
      if (failed(emit(operand)))
        return failure();
    return operation(*op);
  };
  if (failed(emit(offset)))
    return failure();
  rotatedValid = known.getInt();
  rotation = b.CreateAnd(b.CreateTrunc(scalar(offset), b.getInt32Ty()),
                         b.getInt32(width - 1));
  return success();
}

LogicalResult GpuLowering::load(tile::LoadOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  if (loadedBefore(op))
    return success();
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  auto types = partTypes(op.getType());
  bool isTile = isa<VectorType>(op.getType());
  llvm::Align align =
      accessAlign(op.getAlignment(), ref->bytes, knownMultiple(op.getOffset()),
                  isTile ? width : 0);
  llvm::Value *pad = op.getPad() ? toMemory(scalar(op.getPad()), *ref)
                                 : llvm::Constant::getNullValue(ref->memory);
  bool rotated = isTile && rotation;
  bool unaligned = isTile && !rotated && isUnaligned(op, *ref, align);
  llvm::Value *skew =
      unaligned ? skewOf(*ref, scalar(op.getOffset())) : nullptr;
  Parts result;
  for (auto [p, partType] : llvm::enumerate(types)) {
    llvm::Type *type = truth ? withElement(partType, ref->memory) : partType;
    llvm::Value *first = isTile ? firstElement(p) : b.getInt64(0);
    llvm::Value *offset = b.CreateAdd(scalar(op.getOffset()), first);
    llvm::Value *pointer = address(*ref, offset);
    if (rotated) {
      result.push_back(
          rotatedLoad(*ref, scalar(op.getOffset()), p, splatLike(pad, type)));
      continue;
    }
    if (unaligned) {
      llvm::Value *value = nullptr;
      if (!op.getValid() || isInside(p, op.getValid())) {
        value = unalignedLoad(*ref, offset, skew, nullptr);
      } else {
        llvm::Value *left = b.CreateSub(scalar(op.getValid()), first);
        llvm::Value *padding = splatLike(pad, type);
        value = when(b.CreateICmpSGT(left, b.getInt64(0)), padding,
                     [&] { return unalignedLoad(*ref, offset, skew, left); });
        value = when(b.CreateICmpSLT(left, b.getInt64(width)), value, [&] {
          llvm::Value *there =
              b.CreateICmpSLT(step(width, b.getInt64Ty()), splat(left, width));
          return b.CreateSelect(there, value, padding);
        });
      }
      result.push_back(truth ? fromMemory(value) : value);
      continue;
    }
    auto whole = [&]() -> llvm::Value * {
      return tag(b.CreateAlignedLoad(type, pointer, align), *ref);
    };
    llvm::Value *value = nullptr;
    if (!op.getValid() || isInside(p, op.getValid())) {
      value = whole();
    } else {
      llvm::Value *left = b.CreateSub(scalar(op.getValid()), first);
      llvm::Value *padding = splatLike(pad, type);
      value = when(b.CreateICmpSGE(left, b.getInt64(width)), padding, whole);
      // The run that the edge cuts.
      llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(left, b.getInt64(0)),
                                     b.CreateICmpSLT(left, b.getInt64(width)));
      value = when(cut, value, [&] {
        return loadLanes(*ref, pointer, left, padding, pad);
      });
    }
    result.push_back(truth ? fromMemory(value) : value);
  }
  // All loads are under way before one is looked at.
  if (rotated)
    for (auto [p, value] : llvm::enumerate(result)) {
      value = rotatedEdges(value, p, splatLike(pad, value->getType()));
      value = truth ? fromMemory(value) : value;
    }
  set(op.getResult(), result);
  return success();
}

LogicalResult GpuLowering::store(tile::StoreOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  bool isTile = isa<VectorType>(op.getValue().getType());
  llvm::Align align =
      accessAlign(op.getAlignment(), ref->bytes, knownMultiple(op.getOffset()),
                  isTile ? width : 0);
  if (!isTile) {
    // Every thread holds the scalar; one writes it.
    when(b.CreateICmpEQ(thread, b.getInt64(0)), [&] {
      tag(b.CreateAlignedStore(toMemory(scalar(op.getValue()), *ref),
                               address(*ref, scalar(op.getOffset())), align),
          *ref);
    });
    return success();
  }
  if (rotation) {
    for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue()))))
      rotatedStore(*ref, scalar(op.getOffset()), p, toMemory(part, *ref));
    return success();
  }
  if (isUnaligned(op, *ref, align)) {
    Parts values;
    for (llvm::Value *part : Parts(parts(op.getValue())))
      values.push_back(toMemory(part, *ref));
    unalignedStore(*ref, scalar(op.getOffset()), op.getValid(), values);
    return success();
  }
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    llvm::Value *first = firstElement(p);
    llvm::Value *offset = b.CreateAdd(scalar(op.getOffset()), first);
    llvm::Value *pointer = address(*ref, offset);
    auto whole = [&] {
      tag(b.CreateAlignedStore(value, pointer, align), *ref);
    };
    if (!op.getValid() || isInside(p, op.getValid())) {
      whole();
      continue;
    }
    llvm::Value *left = b.CreateSub(scalar(op.getValid()), first);
    when(b.CreateICmpSGE(left, b.getInt64(width)), whole);
    llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(left, b.getInt64(0)),
                                   b.CreateICmpSLT(left, b.getInt64(width)));
    when(cut, [&] { storeLanes(*ref, pointer, left, value); });
  }
  return success();
}

LogicalResult GpuLowering::gather(Value bufferValue, Value result,
                                  llvm::ArrayRef<llvm::Value *> offsets,
                                  Value valid, Value mask, Value pad,
                                  unsigned run) {
  auto ref = buffer(bufferValue);
  if (failed(ref))
    return failure();
  bool truth = getElementTypeOrSelf(result.getType()).isInteger(1);
  llvm::Value *padding = pad ? toMemory(scalar(pad), *ref)
                             : llvm::Constant::getNullValue(ref->memory);
  Parts values;
  for (auto [p, lanes] : llvm::enumerate(offsets)) {
    llvm::Value *take = mask ? parts(mask)[p] : nullptr;
    if (valid) {
      llvm::Value *inside =
          b.CreateICmpSLT(elements(p), splat(scalar(valid), width));
      take = take ? b.CreateAnd(take, inside) : inside;
    }
    auto *type = llvm::FixedVectorType::get(ref->memory, width);
    if (run > 1 && run % width == 0) {
      auto read = [&, p = p, lanes = lanes]() -> llvm::Value * {
        llvm::Value *first = b.CreateExtractElement(lanes, uint64_t(0));
        if (run > width)
          first = b.CreateAdd(
              first, b.CreateAnd(firstElement(p), b.getInt64(run - 1)));
        return tag(
            b.CreateAlignedLoad(type, address(*ref, first),
                                accessAlign({}, ref->bytes, width, width)),
            *ref);
      };
      llvm::Value *value = take
                               ? when(b.CreateExtractElement(take, uint64_t(0)),
                                      splatLike(padding, type), read)
                               : read();
      values.push_back(truth ? fromMemory(value) : value);
      continue;
    }
    llvm::Value *offsetsOfLanes = lanes;
    if (run > 1)
      offsetsOfLanes = b.CreateAdd(
          lanes, b.CreateAnd(elements(p), splat(b.getInt64(run - 1), width)));
    llvm::Value *value = llvm::PoisonValue::get(type);
    for (unsigned j = 0; j < width; ++j) {
      auto read = [&]() -> llvm::Value * {
        return tag(b.CreateAlignedLoad(
                       ref->memory,
                       address(*ref, b.CreateExtractElement(offsetsOfLanes, j)),
                       llvm::Align(ref->bytes)),
                   *ref);
      };
      llvm::Value *lane =
          take ? when(b.CreateExtractElement(take, j), padding, read) : read();
      value = b.CreateInsertElement(value, lane, j);
    }
    values.push_back(truth ? fromMemory(value) : value);
  }
  set(result, values);
  return success();
}

// Of threads with equal offsets any may come last: the order of lanes is not
// kept across threads.
LogicalResult GpuLowering::scatter(tile::ScatterOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  Parts offsets = parts(op.getOffsets());
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    llvm::Value *take = op.getMask() ? parts(op.getMask())[p] : nullptr;
    if (op.getValid()) {
      llvm::Value *inside =
          b.CreateICmpSLT(elements(p), splat(scalar(op.getValid()), width));
      take = take ? b.CreateAnd(take, inside) : inside;
    }
    for (unsigned j = 0; j < width; ++j) {
      auto write = [&, p = p] {
        tag(b.CreateAlignedStore(
                b.CreateExtractElement(value, j),
                address(*ref, b.CreateExtractElement(offsets[p], j)),
                llvm::Align(ref->bytes)),
            *ref);
      };
      if (take)
        when(b.CreateExtractElement(take, j), write);
      else
        write();
    }
  }
  return success();
}

//===-- Blocks of rows ----------------------------------------------------===//

GpuLowering::Run GpuLowering::runOf(const BufferRef &ref, unsigned part,
                                    Operation *op, int64_t columns) {
  // Operands of both ops, but for the value stored: buffer, offset, stride,
  // rows, valid.
  unsigned at = isa<tile::StoreRowsOp>(op) ? 2 : 1;
  auto operand = [&](unsigned i) { return scalar(op->getOperand(at + i)); };
  llvm::Value *first = firstElement(part);
  llvm::Value *row = b.CreateLShr(first, llvm::Log2_64(columns));
  llvm::Value *column = b.CreateAnd(first, b.getInt64(columns - 1));
  llvm::Value *offset = b.CreateAdd(
      operand(0), b.CreateAdd(b.CreateMul(row, operand(1)), column));
  llvm::Value *left = b.CreateSub(operand(3), column);
  left = b.CreateSelect(b.CreateICmpSLT(row, operand(2)), left, b.getInt64(0));
  return {address(ref, offset), b.CreateICmpSGE(left, b.getInt64(width)), left};
}

/// What is known of the alignment of a block's runs.
static llvm::Align rowsAlign(uint64_t offset, uint64_t stride, unsigned bytes,
                             unsigned width) {
  return accessAlign(std::nullopt, bytes, std::min(offset, stride), width);
}

LogicalResult GpuLowering::loadRows(tile::LoadRowsOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  bool truth = op.getBuffer().getType().getElementType().isInteger(1);
  llvm::Align align =
      rowsAlign(knownMultiple(op.getOffset()), knownMultiple(op.getStride()),
                ref->bytes, width);
  Parts result;
  for (auto [p, partType] : llvm::enumerate(partTypes(op.getType()))) {
    llvm::Type *type = truth ? withElement(partType, ref->memory) : partType;
    Run run = runOf(*ref, p, op, op.getColumns());
    llvm::Value *none = llvm::Constant::getNullValue(type);
    llvm::Value *value = when(run.whole, none, [&]() -> llvm::Value * {
      return tag(b.CreateAlignedLoad(type, run.pointer, align), *ref);
    });
    llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(run.left, b.getInt64(0)),
                                   b.CreateNot(run.whole));
    value = when(cut, value, [&] {
      return loadLanes(*ref, run.pointer, run.left, none,
                       llvm::Constant::getNullValue(ref->memory));
    });
    result.push_back(truth ? fromMemory(value) : value);
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult GpuLowering::storeRows(tile::StoreRowsOp op) {
  auto ref = buffer(op.getBuffer());
  if (failed(ref))
    return failure();
  llvm::Align align =
      rowsAlign(knownMultiple(op.getOffset()), knownMultiple(op.getStride()),
                ref->bytes, width);
  for (auto [p, part] : llvm::enumerate(Parts(parts(op.getValue())))) {
    llvm::Value *value = toMemory(part, *ref);
    Run run = runOf(*ref, p, op, op.getColumns());
    when(run.whole,
         [&] { tag(b.CreateAlignedStore(value, run.pointer, align), *ref); });
    llvm::Value *cut = b.CreateAnd(b.CreateICmpSGT(run.left, b.getInt64(0)),
                                   b.CreateNot(run.whole));
    when(cut, [&] { storeLanes(*ref, run.pointer, run.left, value); });
  }
  return success();
}

// Whole runs go to shared memory and single elements come back. Within a row
// the runs are exchanged by the number of the row's group, so that the elements
// of a column lie in different banks.
LogicalResult GpuLowering::transpose(tile::TransposeOp op) {
  uint64_t lanes = op.getType().getNumElements(), columns = op.getColumns();
  uint64_t rows = lanes / columns;
  if (columns % width || rows % width)
    return op.emitOpError("transposes rows shorter than an access of a GPU");
  Parts source = parts(op.getInput());
  llvm::Type *part = source[0]->getType();
  llvm::Type *element = part->getScalarType();
  unsigned bits = element->getScalarSizeInBits();
  llvm::Type *memory = bits < 8 ? b.getInt8Ty() : element;
  unsigned bytes = std::max(bits / 8, 1u);
  llvm::Value *block = sharedArray(memory, lanes * programs,
                                   "_block" + llvm::Twine(exchanges++));
  llvm::Value *base = block;
  if (group)
    base = b.CreateInBoundsGEP(memory, block,
                               b.CreateMul(group, b.getInt64(lanes)));
  uint64_t runs = columns / width; // of a row
  // Where an element lies: its row, the number of its run, its lane.
  auto place = [&](llvm::Value *row, llvm::Value *run, llvm::Value *lane) {
    llvm::Value *other = b.CreateAnd(b.CreateLShr(row, llvm::Log2_64(width)),
                                     b.getInt64(runs - 1));
    llvm::Value *at =
        b.CreateAdd(b.CreateMul(row, b.getInt64(columns)),
                    b.CreateMul(b.CreateXor(run, other), b.getInt64(width)));
    return b.CreateInBoundsGEP(memory, base, b.CreateAdd(at, lane));
  };
  if (!isa<tile::FuncOp>(op->getParentOp()))
    barrier();
  for (auto [p, value] : llvm::enumerate(source)) {
    llvm::Value *first = firstElement(p);
    llvm::Value *row = b.CreateLShr(first, llvm::Log2_64(columns));
    llvm::Value *run = b.CreateLShr(b.CreateAnd(first, b.getInt64(columns - 1)),
                                    llvm::Log2_64(width));
    llvm::Value *word = memory == element
                            ? value
                            : b.CreateZExt(value, withElement(part, memory));
    b.CreateAlignedStore(word, place(row, run, b.getInt64(0)),
                         llvm::Align(std::min(16u, bytes * width)));
  }
  barrier();
  Parts result;
  for (size_t p = 0; p < source.size(); ++p) {
    llvm::Value *first = firstElement(p);
    llvm::Value *column = b.CreateLShr(first, llvm::Log2_64(rows));
    llvm::Value *row = b.CreateAnd(first, b.getInt64(rows - 1));
    llvm::Value *run = b.CreateLShr(column, llvm::Log2_64(width));
    llvm::Value *lane = b.CreateAnd(column, b.getInt64(width - 1));
    llvm::Value *value = llvm::PoisonValue::get(part);
    for (unsigned j = 0; j < width; ++j) {
      llvm::Value *pointer = place(b.CreateAdd(row, b.getInt64(j)), run, lane);
      llvm::Value *word =
          b.CreateAlignedLoad(memory, pointer, llvm::Align(bytes));
      if (memory != element)
        word = b.CreateTrunc(word, element);
      value = b.CreateInsertElement(value, word, j);
    }
    result.push_back(value);
  }
  set(op.getResult(), result);
  return success();
}

} // namespace knapper::lower
