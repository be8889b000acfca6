// All steps of a recurrent cell by FMAs of f32 (tile.recurrence).
//
// Thread (u, s) of a CTA has unit u of the CTA's share, and of the unit's
// weights the runs s, s + slices, ...: in registers, before the first step. The
// states that are multiplied lie in shared memory twice, [buffer][state][row]
// [unit]: a step reads one buffer and writes the other, so that one barrier of
// the cluster a step suffices. Sums of a unit meet by shuffles that hand half
// of the rows to either side, until each thread has the rows it owns: at most
// one.
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "ir/config/RecurrenceConfig.h"

using namespace mlir;

namespace knapper::lower {

namespace {

constexpr unsigned kWarp = 32;

class RecurrenceRecipe : KernelRecipe {
public:
  RecurrenceRecipe(GpuLowering &lowering, tile::RecurrenceOp op)
      : KernelRecipe(lowering), op(op),
        config(config::RecurrenceGpuConfig::of(op.getShape())) {}

  LogicalResult emit();

private:
  LogicalResult check();
  /// Which rows and units the thread has.
  void place();
  void makeShared();
  void readWeights();
  /// A run of a matmul's weights as f32; `zero` is one that follows from the
  /// step.
  llvm::SmallVector<llvm::Value *> weightsOf(unsigned matmul, unsigned run,
                                             llvm::Value *zero);
  /// What a step needs besides states, where `condition` holds, too.
  Carried readInputs(llvm::Value *step, llvm::Value *condition);
  /// Of the thread's row, a sum a matmul.
  Carried multiply(llvm::Value *step, llvm::Value *buffer);
  /// To every CTA of the cluster.
  void writeStates(llvm::Value *buffer, const Carried &states);
  void sendToPeers(llvm::Value *buffer);
  void wait() {
    if (config.clusterSize > 1)
      clusterBarrier();
    else
      barrier();
  }
  /// The region's values where `condition` holds; else zeros.
  Carried run(Region &region, llvm::Value *condition,
              llvm::ArrayRef<llvm::Value *> indices, const Carried &values);
  /// Of a buffer of shared memory, in elements.
  llvm::Value *placeOf(llvm::Value *buffer, unsigned state, llvm::Value *row) {
    llvm::Value *first =
        b.CreateAdd(b.CreateMul(buffer, n32(shared.size() * config.rows)),
                    b.CreateAdd(n32(int64_t(state) * config.rows), row));
    return b.CreateMul(first, n32(pitch));
  }
  llvm::Value *address(llvm::Value *element) {
    return b.CreateInBoundsGEP(b.getFloatTy(), memory, element);
  }

  tile::RecurrenceOp op;
  config::RecurrenceGpuConfig config;
  unsigned width = 1;                  ///< weights that lie side by side
  unsigned runs = 0;                   ///< of a thread
  unsigned units = 0;                  ///< of the CTA
  unsigned pitch = 0;                  ///< elements of a row in shared memory
  llvm::SmallVector<int64_t> shared;   ///< the states that are multiplied
  llvm::SmallVector<unsigned> buffers; ///< of each matmul, in `shared`
  llvm::Value *rows = nullptr, *steps = nullptr;   // i64
  llvm::Value *slice = nullptr, *ownRow = nullptr; // i32
  llvm::Value *part = nullptr;                     ///< of the cluster, i32
  llvm::Value *unit = nullptr;                     ///< clamped, i32
  llvm::Value *row = nullptr;                      ///< of the batch, i64
  llvm::Value *owns = nullptr; ///< whether (row, unit) is the thread's
  llvm::Value *memory = nullptr;
  llvm::SmallVector<llvm::Value *> weights; ///< [matmul][run][element or two]
  LogicalResult status = success();
};

} // namespace

LogicalResult RecurrenceRecipe::check() {
  units = config.unitsOf(op.getUnits());
  width = op.run();
  bool fits =
      llvm::isPowerOf2_64(config.rows) && llvm::isPowerOf2_64(config.slices) &&
      llvm::isPowerOf2_64(config.clusterSize) && config.rows <= config.slices &&
      config.slices <= kWarp && config.threads % kWarp == 0 &&
      units * config.slices <= config.threads;
  if (!fits)
    return op.emitOpError("has a shape that this path cannot do");
  runs = config.runsOf(op.getUnits(), width);
  pitch = config.pitchOf(op.getUnits(), width);
  for (int64_t source : op.getSources()) {
    auto *found = llvm::find(shared, source);
    buffers.push_back(found - shared.begin());
    if (found == shared.end())
      shared.push_back(source);
  }
  if (config.sharedBytes(shared.size(), op.getUnits(), width) >
      config::kStaticSharedBytes)
    return op.emitOpError("has more states than shared memory holds");
  return success();
}

void RecurrenceRecipe::place() {
  rows = scalar(op.getRows());
  steps = scalar(op.getSteps());
  llvm::Value *tid = narrowed(threadOfBlock);
  slice = b.CreateAnd(tid, n32(config.slices - 1));
  llvm::Value *local = b.CreateLShr(tid, n32(llvm::Log2_64(config.slices)));
  llvm::Value *has = b.CreateICmpULT(local, n32(units));
  llvm::Value *number = local, *group = programId;
  if (config.clusterSize > 1) {
    part = narrowed(b.CreateAnd(programId, n64(config.clusterSize - 1)));
    group = b.CreateLShr(programId, n64(llvm::Log2_64(config.clusterSize)));
    number = b.CreateAdd(local, b.CreateMul(part, n32(units)));
  }
  has = b.CreateAnd(has, b.CreateICmpULT(number, n32(op.getUnits())));
  unit = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number,
                                 n32(op.getUnits() - 1));
  // The shuffles leave row r with the threads whose slice begins with its bits.
  int64_t each = config.slices / config.rows;
  ownRow = b.CreateLShr(slice, n32(llvm::Log2_64(each)));
  row = b.CreateAdd(b.CreateMul(group, n64(config.rows)), wide(ownRow));
  owns = b.CreateAnd(has, b.CreateICmpSLT(row, rows));
  if (each > 1)
    owns = b.CreateAnd(
        owns, b.CreateICmpEQ(b.CreateAnd(slice, n32(each - 1)), n32(0)));
}

void RecurrenceRecipe::makeShared() {
  unsigned count = 2 * shared.size() * config.rows * pitch;
  memory = sharedArray(b.getFloatTy(), count, "_states");
  cast<llvm::GlobalVariable>(memory)->setAlignment(llvm::Align(16));
  // What lies behind a row, and rows that are none, are zeros.
  carriedFor(b, "clear", narrowed(threadOfBlock), n32(count),
             n32(config.threads), Carried(),
             [&](llvm::Value *i, const Carried &state) {
               b.CreateAlignedStore(f32(0), address(i), llvm::Align(4));
               return state;
             });
}

void RecurrenceRecipe::readWeights() {
  Block &block = op.getWeights().front();
  Operation *end = block.getTerminator();
  unsigned matmuls = op.getSources().size();
  weights.resize(uint64_t(matmuls) * runs *
                 (config.packed ? width / 2 : width));
  for (unsigned i = 0; i < runs; ++i) {
    llvm::Value *first =
        b.CreateMul(b.CreateAdd(slice, n32(i * config.slices)), n32(width));
    bool whole = (i + 1) * config.slices * width <= int64_t(op.getUnits());
    llvm::Value *inside =
        whole ? nullptr : b.CreateICmpULT(first, n32(op.getUnits()));
    if (inside)
      first = b.CreateSelect(inside, first, n32(0));
    llvm::Value *indices[] = {wide(unit), wide(first)};
    if (failed(runBlock(block, indices))) {
      status = failure();
      return;
    }
    for (unsigned p = 0; p < matmuls; ++p) {
      llvm::Value *values = scalar(end->getOperand(p));
      if (config.packed)
        values = b.CreateBitCast(
            values, llvm::FixedVectorType::get(b.getInt32Ty(), width / 2));
      unsigned count = config.packed ? width / 2 : width;
      for (unsigned j = 0; j < count; ++j) {
        llvm::Value *value =
            width > 1 ? b.CreateExtractElement(values, j) : values;
        weights[(p * runs + i) * count + j] =
            inside
                ? b.CreateSelect(inside, value,
                                 llvm::Constant::getNullValue(value->getType()))
                : value;
      }
    }
  }
}

llvm::SmallVector<llvm::Value *>
RecurrenceRecipe::weightsOf(unsigned matmul, unsigned run, llvm::Value *zero) {
  if (!config.packed) {
    auto *first = weights.begin() + (matmul * runs + run) * width;
    return {first, first + width};
  }
  llvm::SmallVector<llvm::Value *> values;
  Type element = getElementTypeOrSelf(
      op.getWeights().front().getTerminator()->getOperand(0).getType());
  // Depends on the step, or the assembler would keep the f32 in registers.
  auto bytes = [&](llvm::Value *word, unsigned selector) {
    return b.CreateBitCast(b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                                             {word, zero, n32(selector)}),
                           b.getFloatTy());
  };
  constexpr unsigned low = 0x1044, high = 0x3244;
  for (unsigned j = 0; j < width / 2; ++j) {
    llvm::Value *word = weights[(matmul * runs + run) * (width / 2) + j];
    if (element.isBF16()) {
      values.push_back(bytes(word, low));
      values.push_back(bytes(word, high));
      continue;
    }
    llvm::Value *pair = b.CreateBitCast(
        b.CreateXor(word, zero), llvm::FixedVectorType::get(b.getHalfTy(), 2));
    for (unsigned half = 0; half < 2; ++half)
      values.push_back(
          b.CreateFPExt(b.CreateExtractElement(pair, half), b.getFloatTy()));
  }
  return values;
}

Carried RecurrenceRecipe::run(Region &region, llvm::Value *condition,
                              llvm::ArrayRef<llvm::Value *> indices,
                              const Carried &values) {
  llvm::SmallVector<llvm::Value *> arguments(indices);
  llvm::append_range(arguments, values);
  Operation *end = region.front().getTerminator();
  llvm::BasicBlock *before = b.GetInsertBlock(), *inside = nullptr;
  Carried results;
  when(condition, [&] {
    if (failed(runBlock(region.front(), arguments)))
      status = failure();
    else
      for (Value value : end->getOperands())
        results.push_back(scalar(value));
    inside = b.GetInsertBlock();
  });
  for (llvm::Value *&result : results) {
    llvm::PHINode *phi = b.CreatePHI(result->getType(), 2);
    phi->addIncoming(result, inside);
    phi->addIncoming(llvm::Constant::getNullValue(result->getType()), before);
    result = phi;
  }
  return results;
}

Carried RecurrenceRecipe::readInputs(llvm::Value *step,
                                     llvm::Value *condition) {
  return run(op.getInputs(), b.CreateAnd(owns, condition),
             {step, row, wide(unit)}, {});
}

Carried RecurrenceRecipe::multiply(llvm::Value *step, llvm::Value *buffer) {
  llvm::Value *zero = b.CreateLShr(narrowed(step), 31);
  unsigned matmuls = op.getSources().size(), count = config.rows;
  llvm::Type *type = width > 1
                         ? llvm::FixedVectorType::get(b.getFloatTy(), width)
                         : b.getFloatTy();
  Carried sums(uint64_t(matmuls) * count, f32(0)); // [matmul][row]
  llvm::Value *from = b.CreateMul(slice, n32(width));
  for (unsigned i = 0; i < runs; ++i) {
    llvm::SmallVector<llvm::Value *> values; // [row][state]
    for (unsigned r = 0; r < count; ++r)
      for (unsigned state = 0; state < shared.size(); ++state)
        values.push_back(b.CreateAlignedLoad(
            type,
            address(
                b.CreateAdd(b.CreateAdd(placeOf(buffer, state, n32(r)), from),
                            n32(i * config.slices * width))),
            llvm::Align(4 * width)));
    for (unsigned p = 0; p < matmuls; ++p) {
      llvm::SmallVector<llvm::Value *> own = weightsOf(p, i, zero);
      for (unsigned r = 0; r < count; ++r)
        for (unsigned j = 0; j < width; ++j) {
          llvm::Value *x = values[r * shared.size() + buffers[p]];
          llvm::Value *&sum = sums[p * count + r];
          sum = b.CreateIntrinsic(
              llvm::Intrinsic::fma, {b.getFloatTy()},
              {own[j], width > 1 ? b.CreateExtractElement(x, j) : x, sum});
        }
    }
  }
  for (unsigned distance = config.slices / 2; distance; distance /= 2) {
    llvm::Value *upper =
        count > 1 ? b.CreateICmpNE(b.CreateAnd(slice, n32(distance)), n32(0))
                  : nullptr;
    Carried next;
    for (unsigned p = 0; p < matmuls; ++p)
      for (unsigned r = 0; r < std::max(count / 2, 1u); ++r) {
        llvm::Value *own = sums[p * count + r], *other = own;
        if (upper) {
          llvm::Value *high = sums[p * count + count / 2 + r];
          other = b.CreateSelect(upper, own, high);
          own = b.CreateSelect(upper, high, own);
        }
        next.push_back(b.CreateFAdd(own, shuffle(other, distance)));
      }
    sums = std::move(next);
    count = std::max(count / 2, 1u);
  }
  return sums;
}

void RecurrenceRecipe::writeStates(llvm::Value *buffer, const Carried &states) {
  when(owns, [&] {
    for (auto [i, state] : llvm::enumerate(shared))
      b.CreateAlignedStore(
          states[state],
          address(
              b.CreateAdd(placeOf(buffer, i, n32(0)),
                          b.CreateAdd(b.CreateMul(ownRow, n32(pitch)), unit))),
          llvm::Align(4));
  });
  if (config.clusterSize > 1) {
    barrier();
    sendToPeers(buffer);
  }
}

// Accesses of 16 bytes: single words take the network as long each.
void RecurrenceRecipe::sendToPeers(llvm::Value *buffer) {
  constexpr unsigned lanes = 4;
  unsigned chunks = units / lanes, lines = shared.size() * config.rows;
  unsigned each = chunks * lines;
  auto *type = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
  carriedFor(b, "send", narrowed(threadOfBlock),
             n32(each * (config.clusterSize - 1)), n32(config.threads),
             Carried(), [&](llvm::Value *i, const Carried &state) {
               llvm::Value *other = b.CreateUDiv(i, n32(each));
               llvm::Value *within = b.CreateURem(i, n32(each));
               llvm::Value *peer =
                   b.CreateAnd(b.CreateAdd(b.CreateAdd(part, n32(1)), other),
                               n32(config.clusterSize - 1));
               llvm::Value *line = b.CreateUDiv(within, n32(chunks));
               llvm::Value *chunk = b.CreateURem(within, n32(chunks));
               llvm::Value *element =
                   b.CreateAdd(b.CreateAdd(placeOf(buffer, 0, n32(0)),
                                           b.CreateMul(line, n32(pitch))),
                               b.CreateAdd(b.CreateMul(part, n32(units)),
                                           b.CreateMul(chunk, n32(lanes))));
               llvm::Value *from = address(element);
               llvm::Value *to = b.CreateIntrinsic(
                   llvm::Intrinsic::nvvm_mapa_shared_cluster, {}, {from, peer});
               b.CreateAlignedStore(
                   b.CreateAlignedLoad(type, from, llvm::Align(16)), to,
                   llvm::Align(16));
               return state;
             });
}

LogicalResult RecurrenceRecipe::emit() {
  if (failed(check()))
    return failure();
  place();
  makeShared();
  readWeights();
  Carried states = run(op.getInitial(), owns, {row, wide(unit)}, {});
  if (failed(status))
    return failure();
  unsigned count = states.size();
  wait(); // all of it is cleared
  writeStates(n32(0), states);
  wait();
  Carried carried = states;
  llvm::append_range(carried,
                     readInputs(n64(0), b.CreateICmpSGT(steps, n64(0))));
  carried =
      carriedFor(b, "steps", n64(0), steps, n64(1), std::move(carried),
                 [&](llvm::Value *step, const Carried &now) {
                   llvm::Value *following = b.CreateAdd(step, n64(1));
                   Carried ahead =
                       readInputs(following, b.CreateICmpSLT(following, steps));
                   llvm::Value *buffer = b.CreateAnd(narrowed(step), n32(1));
                   Carried values = multiply(step, buffer);
                   llvm::append_range(values, now); // states, then inputs
                   Carried next = run(op.getUpdate(), owns,
                                      {step, row, wide(unit)}, values);
                   if (succeeded(status)) {
                     writeStates(b.CreateXor(buffer, n32(1)), next);
                     wait();
                   }
                   llvm::append_range(next, ahead);
                   return succeeded(status) ? next : now;
                 });
  carried.truncate(count);
  run(op.getLast(), owns, {row, wide(unit)}, carried);
  return status;
}

LogicalResult GpuLowering::recurrenceLayout(tile::RecurrenceOp op) {
  if (failed(regionLayout(op, op.run())))
    return failure();
  auto config = config::RecurrenceGpuConfig::of(op.getShape());
  shape.threads = config.threads;
  cluster = config.clusterSize;
  ctasPerSm = 1;
  return success();
}

LogicalResult GpuLowering::recurrence(tile::RecurrenceOp op) {
  return RecurrenceRecipe(*this, op).emit();
}

} // namespace knapper::lower
