#include "compiler/constants/EvaluateConstants.h"
#include "compiler/constants/ConstantMemory.h"
#include "compiler/constants/StridedCopy.h"
#include "compiler/constants/VectorLoops.h"
#include "ir/tensor/ConstantExpression.h"
#include "ir/tensor/reference/Evaluate.h"
#include "runtime/base/Headroom.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"
#include <new>

using namespace mlir;

namespace knapper {

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

static ts::Shape denseStrides(ArrayRef<int64_t> dims) {
  ts::Shape strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

bool ConstantView::isDense() const {
  ts::Shape expected = denseStrides(dims);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1 && strides[i] != expected[i])
      return elements() == 0;
  return true;
}

void ConstantView::copyTo(void *out, unsigned threads) const {
  stridedCopy(dims, data, strides, out, denseStrides(dims), byteSize(dtype),
              threads);
}

namespace {

// What is not counted: small vectors, the heap's own.
constexpr uint64_t kSmallMemory = uint64_t(1) << 20;

/// A dense value with memory of its own.
struct Fresh {
  ConstantView view;
  uint8_t *out;
};
Fresh allocate(DType dtype, ArrayRef<int64_t> dims) {
  ConstantView view;
  view.dtype = dtype;
  view.dims.assign(dims.begin(), dims.end());
  view.strides = denseStrides(dims);
  std::shared_ptr<uint8_t> memory(
      static_cast<uint8_t *>(malloc(std::max<uint64_t>(view.bytes(), 1))),
      free);
  if (!memory)
    throw std::bad_alloc();
  view.data = memory.get();
  view.owner = memory;
  return {std::move(view), memory.get()};
}

ConstantView fromTensor(const ts::HostTensor &tensor) {
  // The tensor shares its bytes: a copy of it keeps them alive.
  auto keep = std::make_shared<ts::HostTensor>(tensor);
  ConstantView view;
  view.data = tensor.data();
  view.dtype = tensor.dtype();
  view.dims = ts::Shape(tensor.dims());
  view.strides = denseStrides(tensor.dims());
  view.owner = std::move(keep);
  return view;
}

ts::HostTensor toTensor(const ConstantView &view, unsigned threads) {
  ConstantView dense = view.dense(threads);
  return ts::HostTensor::borrow(dense.dtype, dense.dims, dense.data,
                                dense.owner);
}

/// One op of a constant expression.
struct OpEvaluator {
  Operation *op;
  ArrayRef<ConstantView> in;
  const ConstantFiles &files;
  const EvaluateConstantsOptions &options;
  ts::Shape dims; // of result 0
  DType dtype;

  using Result = std::optional<Expected<ConstantView>>;

  Error fail(std::string what) const {
    return userError(std::move(what), ts::locationText(op->getLoc()));
  }

  Result run() {
    return llvm::TypeSwitch<Operation *, Result>(op)
        .Case([&](ts::WeightOp o) { return weight(o); })
        .Case([&](ts::ConstantOp o) { return constant(o); })
        .Case<ts::ReshapeOp, ts::DimCastOp>([&](auto) { return reshape(); })
        .Case([&](ts::TransposeOp o) { return transpose(o); })
        .Case([&](ts::BroadcastOp o) { return broadcast(o); })
        .Case([&](ts::SliceOp o) { return slice(o); })
        .Case([&](ts::ConcatOp o) { return concat(o); })
        .Case([&](ts::PadOp o) { return pad(o); })
        .Case([&](ts::ConvertOp) { return convert(); })
        .Case([&](ts::AddOp) { return arithmetic(FloatOp::add); })
        .Case([&](ts::SubOp) { return arithmetic(FloatOp::sub); })
        .Case([&](ts::MulOp) { return arithmetic(FloatOp::mul); })
        .Case([&](ts::DivOp) { return arithmetic(FloatOp::div); })
        .Case([&](ts::MaxOp) { return arithmetic(FloatOp::max); })
        .Case([&](ts::MinOp) { return arithmetic(FloatOp::min); })
        .Case([&](ts::NegOp) { return arithmetic(FloatOp::neg); })
        .Case([&](ts::AbsOp) { return arithmetic(FloatOp::abs); })
        .Case([&](ts::SqrtOp) { return arithmetic(FloatOp::sqrt); })
        .Case([&](ts::RsqrtOp) { return arithmetic(FloatOp::rsqrt); })
        .Default([](Operation *) { return Result(); });
  }

  Result weight(ts::WeightOp o) {
    Expected<std::span<const std::byte>> bytes = files.data(o.getReference());
    if (!bytes) {
      Error error = bytes.takeError();
      if (error.where.empty())
        error.where = ts::locationText(op->getLoc());
      return error;
    }
    ConstantView view;
    view.data = reinterpret_cast<const uint8_t *>(bytes->data());
    view.dtype = dtype;
    view.dims = dims;
    view.strides = denseStrides(dims);
    view.owner = files.owner();
    return Expected<ConstantView>(std::move(view));
  }

  Result constant(ts::ConstantOp o) {
    if (auto splat = dyn_cast<SplatElementsAttr>(o.getValue()))
      return ofSplat(splat);
    ASSIGN_OR_RETURN(ts::HostTensor value,
                     ts::HostTensor::fromAttribute(o.getValue()));
    return Expected<ConstantView>(fromTensor(value));
  }

  /// One element, seen as all.
  Result ofSplat(SplatElementsAttr splat) {
    Expected<ts::HostTensor> one = ts::HostTensor::fromAttribute(
        splat.resizeSplat(splat.getType().clone(ArrayRef<int64_t>{})));
    if (!one)
      return one.takeError();
    ConstantView view = fromTensor(*one);
    view.dims = dims;
    view.strides.assign(dims.size(), 0);
    return Expected<ConstantView>(std::move(view));
  }

  Result reshape() {
    ConstantView view = in[0].dense(options.threads);
    view.dims = dims;
    view.strides = denseStrides(dims);
    return Expected<ConstantView>(std::move(view));
  }

  Result transpose(ts::TransposeOp o) {
    ConstantView view = in[0];
    view.dims = dims;
    for (auto [i, dim] : llvm::enumerate(o.getPermutation()))
      view.strides[i] = in[0].strides[dim];
    return Expected<ConstantView>(std::move(view));
  }

  Result broadcast(ts::BroadcastOp o) {
    ConstantView view = in[0];
    view.dims = dims;
    view.strides.assign(dims.size(), 0);
    for (auto [i, dim] : llvm::enumerate(o.getDims()))
      if (in[0].dims[i] != 1)
        view.strides[dim] = in[0].strides[i];
    return Expected<ConstantView>(std::move(view));
  }

  Result slice(ts::SliceOp o) {
    ConstantView view = in[0];
    view.dims = dims;
    bool empty = view.elements() == 0;
    for (auto [i, size] : llvm::enumerate(ts::dimsOf(o.getStarts()))) {
      int64_t start = *size.asConstant(), step = o.getSteps()[i];
      int64_t last = start + (dims[i] - 1) * step, limit = in[0].dims[i];
      if (!empty && (start < 0 || start >= limit || last < 0 || last >= limit))
        return fail(cat("ts.slice takes elements ", start, " to ", last,
                        " of dim ", i, ", which has ", limit));
      if (!empty)
        view.data += start * view.strides[i] * int64_t(byteSize(dtype));
      view.strides[i] *= step;
    }
    return Expected<ConstantView>(std::move(view));
  }

  /// Copies a part into place: its first element is at `start`.
  void place(uint8_t *out, const ConstantView &part, ArrayRef<int64_t> start) {
    ts::Shape strides = denseStrides(dims);
    int64_t offset = 0;
    for (size_t i = 0; i < dims.size(); ++i)
      offset += start[i] * strides[i];
    stridedCopy(part.dims, part.data, part.strides,
                out + offset * byteSize(dtype), strides, byteSize(dtype),
                options.threads);
  }

  Result concat(ts::ConcatOp o) {
    Fresh fresh = allocate(dtype, dims);
    ts::Shape start(dims.size(), 0);
    for (const ConstantView &part : in) {
      place(fresh.out, part, start);
      start[o.getDim()] += part.dims[o.getDim()];
    }
    return Expected<ConstantView>(std::move(fresh.view));
  }

  Result pad(ts::PadOp o) {
    if (o.getMode() != ts::PadMode::constant)
      return {};
    ts::Shape low;
    for (auto [i, size] : llvm::enumerate(ts::dimsOf(o.getLow()))) {
      low.push_back(*size.asConstant());
      if (low[i] < 0 || dims[i] - in[0].dims[i] - low[i] < 0)
        return {};
    }
    Fresh fresh = allocate(dtype, dims);
    ts::Shape zero(dims.size(), 0);
    stridedCopy(dims, in[1].data, zero, fresh.out, denseStrides(dims),
                byteSize(dtype), options.threads);
    place(fresh.out, in[0], low);
    return Expected<ConstantView>(std::move(fresh.view));
  }

  /// Offsets in model files need not be multiples of the element's size;
  /// arithmetic wants them to be.
  ConstantView aligned(const ConstantView &view) const {
    if (reinterpret_cast<uintptr_t>(view.data) % byteSize(view.dtype) == 0)
      return view;
    Fresh fresh = allocate(view.dtype, view.dims);
    view.copyTo(fresh.out, options.threads);
    return std::move(fresh.view);
  }

  Result convert() {
    auto with = [&](auto loop, auto *out, auto *from) {
      splitRange(fresh->view.elements(), 1 << 18, options.threads,
                 [&](int64_t begin, int64_t end) {
                   loop(out + begin, from + begin, end - begin);
                 });
      return Expected<ConstantView>(std::move(fresh->view));
    };
    DType from = in[0].dtype;
    auto is = [&](DType a, DType b) { return from == a && dtype == b; };
    if (!(is(DType::f32, DType::bf16) || is(DType::f32, DType::f16) ||
          is(DType::bf16, DType::f32) || is(DType::f16, DType::f32)))
      return {};
    ConstantView source = aligned(in[0].dense(options.threads));
    fresh = allocate(dtype, dims);
    if (from == DType::f32)
      return with(dtype == DType::bf16 ? convertF32ToBf16 : convertF32ToF16,
                  reinterpret_cast<uint16_t *>(fresh->out),
                  reinterpret_cast<const float *>(source.data));
    return with(from == DType::bf16 ? convertBf16ToF32 : convertF16ToF32,
                reinterpret_cast<float *>(fresh->out),
                reinterpret_cast<const uint16_t *>(source.data));
  }
  std::optional<Fresh> fresh;

  Result arithmetic(FloatOp code) {
    if (dtype != DType::f32)
      return {};
    // Lines along the last dim; an operand whose last stride is neither 0 nor
    // 1 (a transposed one) is copied first.
    SmallVector<ConstantView, 2> operands(in);
    for (ConstantView &view : operands) {
      if (!dims.empty() && view.strides.back() != 0 && view.strides.back() != 1)
        view = view.dense(options.threads);
      view = aligned(view);
    }
    Fresh result = allocate(dtype, dims);
    bool dense = llvm::all_of(
        operands, [](const ConstantView &view) { return view.isDense(); });
    int64_t total = result.view.elements();
    int64_t line = dense ? total : dims.back();
    if (total == 0)
      return Expected<ConstantView>(std::move(result.view));
    auto *out = reinterpret_cast<float *>(result.out);
    auto pointer = [&](size_t k) {
      return reinterpret_cast<const float *>(operands[k].data);
    };
    const float *x = pointer(0), *y = operands.size() > 1 ? pointer(1) : x;
    if (dense) {
      splitRange(total, 1 << 18, options.threads,
                 [&](int64_t begin, int64_t end) {
                   applyFloatOp(code, out + begin, x + begin, 1, y + begin, 1,
                                end - begin);
                 });
      return Expected<ConstantView>(std::move(result.view));
    }
    const ConstantView &a = operands[0], &b = operands.back();
    splitRange(total / line, (1 << 18) / line + 1, options.threads,
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   int64_t rest = row, xAt = 0, yAt = 0;
                   for (size_t i = dims.size() - 1; i-- > 0;) {
                     int64_t index = rest % dims[i];
                     rest /= dims[i];
                     xAt += index * a.strides[i];
                     yAt += index * b.strides[i];
                   }
                   applyFloatOp(code, out + row * line, x + xAt,
                                a.strides.back(), y + yAt, b.strides.back(),
                                line);
                 }
               });
    return Expected<ConstantView>(std::move(result.view));
  }
};

/// All results of one op.
Expected<SmallVector<ConstantView>>
evaluateOp(Operation *op, ArrayRef<ConstantView> operands,
           const ConstantFiles &files,
           const EvaluateConstantsOptions &options) {
  Expected<ts::Shape> shape =
      ts::evaluateShape(op->getResult(0).getType(), {}, options.maxBytes);
  if (!shape) {
    Error error = shape.takeError();
    error.where = ts::locationText(op->getLoc());
    return error;
  }
  DType dtype = *ts::dtypeOf(ts::elementTypeOf(op->getResult(0)));
  OpEvaluator fast{op, operands, files, options, *shape, dtype, {}};
  if (OpEvaluator::Result result = fast.run()) {
    if (!*result)
      return result->takeError();
    return SmallVector<ConstantView>{std::move(**result)};
  }
  SmallVector<ts::HostTensor> tensors;
  for (const ConstantView &view : operands)
    tensors.push_back(toTensor(view, options.threads));
  ts::EvaluateContext context;
  context.maxBytes = options.maxBytes;
  ASSIGN_OR_RETURN(SmallVector<ts::HostTensor> results,
                   ts::evaluate(op, tensors, context));
  return llvm::map_to_vector(results, fromTensor);
}

} // namespace

ConstantView ConstantView::dense(unsigned threads) const {
  if (isDense())
    return *this;
  Fresh fresh = allocate(dtype, dims);
  copyTo(fresh.out, threads);
  return std::move(fresh.view);
}

Expected<ConstantView>
evaluateConstant(Value value, const ConstantFiles &files,
                 const EvaluateConstantsOptions &options) {
  if (!ts::isConstantExpression(value))
    return internalError("a value that depends on inputs was taken for a "
                         "constant",
                         ts::locationText(value.getLoc()));
  ASSIGN_OR_RETURN(uint64_t memory, memoryOfConstant(value));
  TRY(checkHeadroom(memory + kSmallMemory));
  ConstantOrder order(value);
  // Values die after their last use.
  llvm::DenseMap<Value, ConstantView> values;
  for (Operation *op : order.ops) {
    SmallVector<ConstantView> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(values[operand]);
      if (--order.uses[operand] == 0)
        values.erase(operand);
    }
    ASSIGN_OR_RETURN(SmallVector<ConstantView> results,
                     evaluateOp(op, operands, files, options));
    for (auto [result, view] : llvm::zip(op->getResults(), results))
      if (order.uses.count(result))
        values[result] = std::move(view);
  }
  return std::move(values[value]);
}

void packPanels(void *out, const ConstantView &view, bool transposed,
                int64_t width, unsigned threads) {
  size_t rank = view.dims.size();
  int64_t k = view.dims[rank - (transposed ? 1 : 2)];
  int64_t n = view.dims[rank - (transposed ? 2 : 1)];
  PanelSource source{nullptr, k, n, view.strides[rank - (transposed ? 1 : 2)],
                     view.strides[rank - (transposed ? 2 : 1)]};
  uint64_t bytes = packedPanelBytes(k, n, width, view.dtype);
  ArrayRef<int64_t> leading = ArrayRef(view.dims).drop_back(2);
  int64_t matrices = *ts::elementCountOf(leading);
  // Threads share one matrix; many small ones would be better shared whole.
  for (int64_t m = 0; m < matrices; ++m) {
    int64_t rest = m, offset = 0;
    for (size_t i = leading.size(); i-- > 0;) {
      offset += rest % leading[i] * view.strides[i];
      rest /= leading[i];
    }
    source.data = view.data + offset * int64_t(byteSize(view.dtype));
    packPanels(static_cast<uint8_t *>(out) + m * bytes, source, width,
               view.dtype, threads);
  }
}

} // namespace knapper
