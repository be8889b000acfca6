// Attention on GPUs: what all ways to compute it share, and the way for any
// GPU, any strides and any of f32, f16, bf16 by FMAs of f32.
//
// A block of 128 threads has 64 rows of queries and `width` columns of the
// result, and walks the keys in blocks of 64. Queries and keys go through
// shared memory 16 deep, weights and values 16 keys at a time. Thread (y, x), 8
// by 16, has of the scores and of the result
//
//   rows 8y .. 8y+7, keys 4x .. 4x+3, columns 4x .. 4x+3 and 64 further on
//
// so that a row belongs to 16 neighbouring lanes, and a warp's reads of shared
// memory are broadcasts or runs.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/PtxAsm.h"
#include "ir/config/AttentionGpuConfig.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using knapper::config::AttentionPath;
using knapper::config::EmptyRow;

namespace knapper::lower {

namespace {
constexpr unsigned kThreads = 128;
constexpr unsigned kRows = 64, kKeys = 64, kDepth = 16;
constexpr unsigned kOwnRows = 8, kOwnKeys = 4;
constexpr unsigned kPitch = kRows + 4; // of a line in shared memory
constexpr double kLog2E = 1.4426950408889634;
/// Below every score, yet exp2 of its distance to itself is 1.
constexpr double kUnseen = -0x1p100;

/// Rows of elements in global memory, one matrix of the operand.
struct StridedMatrix {
  BufferRef buffer;
  Type element;
  llvm::Value *base, *rowStride, *stride; // in elements, i64
  llvm::Value *rows, *columns;            // there are, i64
  unsigned lanes;                         // of an access
};
} // namespace

LogicalResult GpuLowering::attentionLayout(tile::AttentionOp op) {
  if (failed(regionLayout(op, op.run())))
    return failure();
  auto config = config::AttentionGpuConfig::of(op.getShape());
  if (config.path == AttentionPath::simt) {
    shape.threads = kThreads;
    return success();
  }
  shape.threads = 128 * (config.consumers + 1);
  shape.ctasPerSm = 1;
  maps = 4;
  return success();
}

LogicalResult GpuLowering::attention(tile::AttentionOp op) {
  return config::AttentionGpuConfig::of(op.getShape()).path ==
                 AttentionPath::simt
             ? simtAttention(op)
             : flashAttention(op);
}

LogicalResult GpuLowering::scores(tile::AttentionOp op,
                                  llvm::MutableArrayRef<llvm::Value *> run,
                                  llvm::Value *batch, llvm::Value *head,
                                  llvm::Value *row, llvm::Value *key) {
  Block &body = op.getBody().front();
  llvm::Value *value = run[0];
  if (op.run() > 1) {
    value = llvm::PoisonValue::get(
        llvm::FixedVectorType::get(b.getFloatTy(), run.size()));
    for (auto [i, score] : llvm::enumerate(run))
      value = b.CreateInsertElement(value, score, i);
  }
  set(body.getArgument(0), {value});
  llvm::Value *indices[] = {batch, head, row, key};
  for (auto [i, index] : llvm::enumerate(indices))
    set(body.getArgument(1 + i), {b.CreateSExt(index, b.getInt64Ty())});
  if (failed(block(body)))
    return failure();
  value = scalar(cast<tile::YieldOp>(body.getTerminator()).getValue());
  if (op.run() == 1)
    run[0] = value;
  else
    for (auto [i, score] : llvm::enumerate(run))
      score = b.CreateExtractElement(value, i);
  return success();
}

LogicalResult GpuLowering::simtAttention(tile::AttentionOp op) {
  auto config = config::AttentionGpuConfig::of(op.getShape());
  unsigned width = config.headDim;
  // As registers hold.
  fn->addFnAttr("nvvm.minctasm", width == 64 && op.keepsScores() ? "3" : "2");
  if (config.tileM != kRows || config.tileN != kKeys ||
      (width != 64 && width != 128) || op.run() != 1)
    return op.emitOpError("has a shape that this path cannot do");
  auto n64 = [&](int64_t n) { return b.getInt64(n); };
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto narrowed = [&](llvm::Value *v) {
    return b.CreateTrunc(v, b.getInt32Ty());
  };
  auto wide = [&](llvm::Value *v) { return b.CreateSExt(v, b.getInt64Ty()); };
  auto number = [&](double n) -> llvm::Value * {
    return llvm::ConstantFP::get(b.getFloatTy(), n);
  };
  auto fma = [&](llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {x, y, z});
  };
  auto least = [&](llvm::Value *x, llvm::Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  PtxAsm fast(b); // 2^x, which all GPUs have
  Type f32 = Float32Type::get(op.getContext());
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  llvm::Value *never = llvm::ConstantFP::getInfinity(b.getFloatTy(), true);
  bool mean = config.emptyRow == EmptyRow::mean;
  const unsigned ownColumns = width / 16;

  //===-- Which block -----------------------------------------------------===//
  OperandRange sizes = op.getSizes();
  llvm::Value *heads = scalar(sizes[1]), *keyHeads = scalar(sizes[2]),
              *queries = scalar(sizes[3]), *keys = scalar(sizes[4]),
              *depth = scalar(sizes[5]), *columns = scalar(sizes[6]);
  auto ceil = [&](llvm::Value *x, unsigned by) {
    return b.CreateUDiv(b.CreateAdd(x, n64(by - 1)), n64(by));
  };
  llvm::Value *rest = programId;
  auto take = [&](llvm::Value *size) {
    llvm::Value *before = rest;
    rest = b.CreateUDiv(before, size);
    return b.CreateSub(before, b.CreateMul(rest, size));
  };
  llvm::Value *firstColumn =
      b.CreateMul(take(ceil(columns, width)), n64(width));
  llvm::Value *firstRow = b.CreateMul(take(ceil(queries, kRows)), n64(kRows));
  llvm::Value *head = take(heads), *batch = rest;
  llvm::Value *keyHead = b.CreateUDiv(head, b.CreateUDiv(heads, keyHeads));
  llvm::Value *causal = op.getCausal() ? scalar(op.getCausal()) : nullptr;
  llvm::Value *end = keys;
  if (causal && !mean) // (a mean over all keys needs all of them)
    end =
        least(keys, b.CreateAdd(b.CreateAdd(firstRow, causal), n64(kRows - 1)));

  LogicalResult status = success();
  auto matrix = [&](Value bufferValue, Value offset, OperandRange strides,
                    llvm::Value *h, llvm::Value *rows, Value extent) {
    StridedMatrix m;
    auto ref = buffer(bufferValue);
    if (failed(ref)) {
      status = failure();
      return m;
    }
    m.buffer = *ref;
    m.element = cast<tile::BufferType>(bufferValue.getType()).getElementType();
    m.base = b.CreateAdd(scalar(offset),
                         b.CreateAdd(b.CreateMul(batch, scalar(strides[0])),
                                     b.CreateMul(h, scalar(strides[1]))));
    m.rowStride = scalar(strides[2]);
    m.stride = scalar(strides[3]);
    m.rows = rows;
    m.columns = scalar(extent);
    uint64_t multiple =
        std::min({knownMultiple(offset), knownMultiple(strides[0]),
                  knownMultiple(strides[1]), knownMultiple(strides[2]),
                  knownMultiple(extent)});
    m.lanes = matchPattern(strides[3], m_One()) && multiple % 4 == 0 ? 4 : 1;
    return m;
  };
  StridedMatrix q = matrix(op.getQ(), op.getQOffset(), op.getQStrides(), head,
                           queries, sizes[5]);
  StridedMatrix k = matrix(op.getK(), op.getKOffset(), op.getKStrides(),
                           keyHead, keys, sizes[5]);
  StridedMatrix v = matrix(op.getV(), op.getVOffset(), op.getVStrides(),
                           keyHead, keys, sizes[6]);
  StridedMatrix o = matrix(op.getO(), op.getOOffset(), op.getOStrides(), head,
                           queries, sizes[6]);
  if (failed(status))
    return failure();

  //===-- Shared memory ---------------------------------------------------===//
  auto makeShared = [&](unsigned elements, const char *name) {
    return sharedArray(b.getFloatTy(), elements, name);
  };
  llvm::Value *queryBlock = makeShared(kDepth * kPitch, "_queries");
  llvm::Value *keyBlock = makeShared(kDepth * kPitch, "_keys");
  llvm::Value *weightBlock = makeShared(kKeys * kPitch, "_weights");
  llvm::Value *valueBlock = makeShared(kDepth * width, "_values");
  auto sharedAt = [&](llvm::Value *memory, llvm::Value *offset) {
    return b.CreateInBoundsGEP(b.getFloatTy(), memory, offset);
  };
  llvm::Value *tid = narrowed(threadOfBlock);
  llvm::Value *x = b.CreateURem(tid, n32(16)), *y = b.CreateUDiv(tid, n32(16));
  llvm::Value *x4 = b.CreateMul(x, n32(4)),
              *ownRow = b.CreateMul(y, n32(kOwnRows));

  // `count` rows by `across` elements from (row, column) on to shared memory,
  // as [element][row] or, `straight`, [row][element]. Zero where there are
  // none.
  auto copy = [&](const StridedMatrix &m, llvm::Value *row, llvm::Value *column,
                  unsigned count, unsigned across, llvm::Value *to,
                  bool straight) {
    unsigned runs = across / m.lanes, rounds = count * runs / kThreads;
    auto piece = [&](llvm::Value *i) {
      llvm::Value *number = b.CreateAdd(tid, b.CreateMul(i, n32(kThreads)));
      llvm::Value *r = b.CreateUDiv(number, n32(runs));
      llvm::Value *c =
          b.CreateMul(b.CreateURem(number, n32(runs)), n32(m.lanes));
      llvm::Value *atRow = b.CreateAdd(row, wide(r)),
                  *atColumn = b.CreateAdd(column, wide(c));
      llvm::Value *inside = b.CreateAnd(b.CreateICmpSLT(atRow, m.rows),
                                        b.CreateICmpSLT(atColumn, m.columns));
      llvm::Value *offset =
          b.CreateAdd(m.base, b.CreateAdd(b.CreateMul(atRow, m.rowStride),
                                          b.CreateMul(atColumn, m.stride)));
      offset = b.CreateSelect(inside, offset, m.base);
      llvm::Type *type = llvm::FixedVectorType::get(m.buffer.memory, m.lanes);
      llvm::Value *loaded =
          tag(b.CreateAlignedLoad(type, address(m.buffer, offset),
                                  llvm::Align(m.lanes * m.buffer.bytes)),
              m.buffer);
      loaded = floatCast(loaded, m.element, f32);
      loaded = b.CreateSelect(inside, loaded,
                              llvm::Constant::getNullValue(loaded->getType()));
      if (straight) {
        b.CreateAlignedStore(
            loaded, sharedAt(to, b.CreateAdd(b.CreateMul(r, n32(across)), c)),
            llvm::Align(4 * m.lanes));
        return;
      }
      for (unsigned lane = 0; lane < m.lanes; ++lane)
        b.CreateAlignedStore(
            b.CreateExtractElement(loaded, lane),
            sharedAt(to, b.CreateAdd(b.CreateMul(b.CreateAdd(c, n32(lane)),
                                                 n32(kPitch)),
                                     r)),
            llvm::Align(4));
    };
    if (m.lanes > 1) {
      for (unsigned i = 0; i < rounds; ++i)
        piece(n32(i));
      return;
    }
    // Rows and columns of so many single elements, kept from round to round,
    // would take more registers than there are.
    carriedFor(b, "elements", n32(0), n32(rounds), n32(1), {},
               [&](llvm::Value *i, const Carried &) -> Carried {
                 piece(i);
                 return {};
               });
  };
  auto fetch = [&](llvm::Value *memory, llvm::Value *offset, unsigned count,
                   Carried &values) {
    for (unsigned i = 0; i < count; i += 4) {
      llvm::Value *piece = b.CreateAlignedLoad(
          four, sharedAt(memory, b.CreateAdd(offset, n32(i))), llvm::Align(16));
      for (unsigned lane = 0; lane < 4; ++lane)
        values.push_back(b.CreateExtractElement(piece, lane));
    }
  };
  // Over the 16 lanes of a row.
  auto overRow = [&](llvm::Value *value, bool largest) {
    for (unsigned distance : {1, 2, 4, 8}) {
      llvm::Value *other = shuffle(value, distance);
      value = largest ? b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, value,
                                                other)
                      : b.CreateFAdd(value, other);
    }
    return value;
  };

  //===-- The walk over the keys ------------------------------------------===//
  llvm::Value *ownFirst = b.CreateAdd(narrowed(firstRow), ownRow);
  llvm::Value *lastRow = b.CreateSub(narrowed(queries), n32(1)),
              *lastKey = b.CreateSub(narrowed(keys), n32(1));
  constexpr unsigned largestAt = 0, sumAt = kOwnRows, resultAt = 2 * kOwnRows;
  Carried state(kOwnRows, never);
  state.append(kOwnRows + kOwnRows * ownColumns, number(0));
  state = carriedFor(
      b, "keys", n64(0), end, n64(kKeys), std::move(state),
      [&](llvm::Value *key, const Carried &before) -> Carried {
        // (Without depth there is no first element to read either.)
        Carried scores = carriedFor(
            b, "depth", n64(0), depth, n64(kDepth),
            Carried(kOwnRows * kOwnKeys, number(0)),
            [&](llvm::Value *d, const Carried &sums) -> Carried {
              Carried next(sums);
              barrier(); // all have read what was there
              copy(q, firstRow, d, kRows, kDepth, queryBlock, false);
              copy(k, key, d, kKeys, kDepth, keyBlock, false);
              barrier();
              for (unsigned i = 0; i < kDepth; ++i) {
                Carried as, bs;
                fetch(queryBlock, b.CreateAdd(ownRow, n32(i * kPitch)),
                      kOwnRows, as);
                fetch(keyBlock, b.CreateAdd(x4, n32(i * kPitch)), kOwnKeys, bs);
                for (unsigned r = 0; r < kOwnRows; ++r)
                  for (unsigned c = 0; c < kOwnKeys; ++c) {
                    llvm::Value *&sum = next[kOwnKeys * r + c];
                    sum = fma(as[r], bs[c], sum);
                  }
              }
              return next;
            });
        llvm::Value *ownKey = b.CreateAdd(narrowed(key), x4);
        for (llvm::Value *&score : scores)
          score = b.CreateFMul(score, number(op.getScale().convertToDouble()));
        if (!op.keepsScores()) {
          // Through this thread's places among the weights, so that the
          // region's code is there once.
          barrier(); // all have read what was there
          auto place = [&](llvm::Value *r, llvm::Value *c) {
            return sharedAt(
                weightBlock,
                b.CreateAdd(b.CreateMul(b.CreateAdd(x4, c), n32(kPitch)),
                            b.CreateAdd(ownRow, r)));
          };
          for (unsigned i = 0; i < scores.size(); ++i)
            b.CreateAlignedStore(scores[i],
                                 place(n32(i / kOwnKeys), n32(i % kOwnKeys)),
                                 llvm::Align(4));
          carriedFor(b, "scores", n32(0), n32(scores.size()), n32(1), {},
                     [&](llvm::Value *i, const Carried &) -> Carried {
                       llvm::Value *r = b.CreateUDiv(i, n32(kOwnKeys)),
                                   *c = b.CreateURem(i, n32(kOwnKeys));
                       llvm::Value *score = b.CreateAlignedLoad(
                           b.getFloatTy(), place(r, c), llvm::Align(4));
                       if (failed(this->scores(
                               op, score, narrowed(batch), narrowed(head),
                               least(b.CreateAdd(ownFirst, r), lastRow),
                               least(b.CreateAdd(ownKey, c), lastKey))))
                         status = failure();
                       b.CreateAlignedStore(score, place(r, c), llvm::Align(4));
                       return {};
                     });
          for (unsigned i = 0; i < scores.size(); ++i)
            scores[i] = b.CreateAlignedLoad(
                b.getFloatTy(), place(n32(i / kOwnKeys), n32(i % kOwnKeys)),
                llvm::Align(4));
        }
        Carried next(before);
        for (unsigned r = 0; r < kOwnRows; ++r) {
          llvm::Value *row = b.CreateAdd(ownFirst, n32(r));
          auto own =
              llvm::MutableArrayRef(scores).slice(kOwnKeys * r, kOwnKeys);
          llvm::Value *largest = before[largestAt + r];
          for (unsigned c = 0; c < kOwnKeys; ++c) {
            llvm::Value *at = b.CreateAdd(ownKey, n32(c));
            llvm::Value *&score = own[c];
            llvm::Value *seen = b.CreateICmpSLE(at, lastKey);
            llvm::Value *before =
                causal
                    ? b.CreateICmpSLT(wide(at), b.CreateAdd(wide(row), causal))
                    : nullptr;
            if (mean) {
              llvm::Value *unseen = b.CreateFCmpOLT(score, number(kUnseen));
              if (before)
                unseen = b.CreateOr(unseen, b.CreateNot(before));
              score = b.CreateSelect(unseen, number(kUnseen), score);
            } else if (before) {
              seen = b.CreateAnd(seen, before);
            }
            score = b.CreateSelect(seen, score, never);
            largest = b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, largest,
                                              score);
          }
          largest = overRow(largest, true);
          // A row that sees nothing yet has no maximum: any number will do.
          llvm::Value *reference = b.CreateSelect(
              b.CreateFCmpOEQ(largest, never), number(0), largest);
          auto weight = [&](llvm::Value *score) {
            return fast.exp2(
                b.CreateFMul(b.CreateFSub(score, reference), number(kLog2E)));
          };
          llvm::Value *scaled = weight(before[largestAt + r]);
          llvm::Value *sum = b.CreateFMul(before[sumAt + r], scaled);
          for (llvm::Value *&score : own) {
            score = weight(score);
            sum = b.CreateFAdd(sum, score);
          }
          next[largestAt + r] = largest;
          next[sumAt + r] = sum;
          for (unsigned c = 0; c < ownColumns; ++c) {
            llvm::Value *&result = next[resultAt + ownColumns * r + c];
            result = b.CreateFMul(result, scaled);
          }
        }
        // (The products that read the weights before lie behind a barrier,
        // unless there is no depth.)
        barrier();
        for (unsigned c = 0; c < kOwnKeys; ++c)
          for (unsigned half = 0; half < kOwnRows; half += 4) {
            llvm::Value *piece = llvm::PoisonValue::get(four);
            for (unsigned i = 0; i < 4; ++i)
              piece = b.CreateInsertElement(
                  piece, scores[kOwnKeys * (half + i) + c], i);
            b.CreateAlignedStore(
                piece,
                sharedAt(weightBlock,
                         b.CreateAdd(
                             b.CreateMul(b.CreateAdd(x4, n32(c)), n32(kPitch)),
                             b.CreateAdd(ownRow, n32(half)))),
                llvm::Align(16));
          }
        Carried sums(next.begin() + resultAt, next.end());
        sums = carriedFor(
            b, "values", n32(0), n32(kKeys), n32(kDepth), std::move(sums),
            [&](llvm::Value *first, const Carried &before) -> Carried {
              Carried sums(before);
              barrier();
              copy(v, b.CreateAdd(key, wide(first)), firstColumn, kDepth, width,
                   valueBlock, true);
              barrier();
              for (unsigned i = 0; i < kDepth; ++i) {
                llvm::Value *line = b.CreateAdd(first, n32(i));
                Carried as, bs;
                fetch(weightBlock,
                      b.CreateAdd(b.CreateMul(line, n32(kPitch)), ownRow),
                      kOwnRows, as);
                for (unsigned c = 0; c < ownColumns; c += 4)
                  fetch(valueBlock, b.CreateAdd(x4, n32(i * width + 16 * c)), 4,
                        bs);
                for (unsigned r = 0; r < kOwnRows; ++r)
                  for (unsigned c = 0; c < ownColumns; ++c) {
                    llvm::Value *&sum = sums[ownColumns * r + c];
                    sum = fma(as[r], bs[c], sum);
                  }
              }
              return sums;
            });
        llvm::copy(sums, next.begin() + resultAt);
        return next;
      });

  //===-- The result ------------------------------------------------------===//
  llvm::Value *none = number(0);
  if (config.emptyRow == EmptyRow::nan)
    none = b.CreateSelect(b.CreateICmpSGT(keys, n64(0)),
                          llvm::ConstantFP::getNaN(b.getFloatTy()), none);
  for (unsigned r = 0; r < kOwnRows; ++r) {
    llvm::Value *sum = overRow(state[sumAt + r], false);
    llvm::Value *inverse = b.CreateSelect(b.CreateFCmpOEQ(sum, number(0)), none,
                                          b.CreateFDiv(number(1), sum));
    llvm::Value *row = b.CreateAdd(b.CreateAdd(firstRow, wide(ownRow)), n64(r));
    when(b.CreateICmpSLT(row, queries), [&] {
      for (unsigned c = 0; c < ownColumns; c += o.lanes) {
        llvm::Value *column = b.CreateAdd(b.CreateAdd(firstColumn, wide(x4)),
                                          n64(c % 4 + c / 4 * 64));
        llvm::Value *value = llvm::PoisonValue::get(
            llvm::FixedVectorType::get(b.getFloatTy(), o.lanes));
        for (unsigned lane = 0; lane < o.lanes; ++lane)
          value = b.CreateInsertElement(
              value,
              b.CreateFMul(state[resultAt + ownColumns * r + c + lane],
                           inverse),
              lane);
        when(b.CreateICmpSLT(column, columns), [&] {
          llvm::Value *offset =
              b.CreateAdd(o.base, b.CreateAdd(b.CreateMul(row, o.rowStride),
                                              b.CreateMul(column, o.stride)));
          tag(b.CreateAlignedStore(floatCast(value, f32, o.element),
                                   address(o.buffer, offset),
                                   llvm::Align(o.lanes * o.buffer.bytes)),
              o.buffer);
        });
      }
    });
  }
  return status;
}

} // namespace knapper::lower
