#include "runtime/drivers/cuda/CublasLtMatmul.h"

#include "runtime/base/Text.h"

#include <optional>
#include <utility>

namespace knapper::cuda {
namespace {

// Numbers of cublasLt.h, cublas_api.h and library_types.h.
constexpr int kFloat32 = 0, kFloat16 = 2, kBfloat16 = 14;      // cudaDataType_t
constexpr int kCompute32 = 68, kComputeTf32 = 77;              // compute types
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7; // operation
constexpr int kBiasPointer = 8, kBiasType = 26;
constexpr int kBatchCount = 5, kBatchStride = 6;  // layout
constexpr int kMostWorkspace = 1, kReduction = 3; // preference
constexpr int kAlignmentA = 5;                    // B, C, D follow
constexpr int32_t kTransposed = 1;
constexpr uint32_t kReduceInFloat32 = 2; // others sum in the result's type
constexpr uint32_t kPlain = 1, kRelu = 2, kBias = 4, kGelu = 32; // epilogue

// What NVIDIA recommends for Hopper.
constexpr uint64_t kWorkspace = 32 << 20;
// Of arguments: what the planner and callers' tensors keep.
constexpr uint32_t kAlignment = 16;

std::optional<int> typeOf(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return kFloat32;
  case DType::f16:
    return kFloat16;
  case DType::bf16:
    return kBfloat16;
  default:
    return std::nullopt;
  }
}

Status check(int status, const char *call) {
  return status == 0 ? success() : deviceError(cat(call, " returned ", status));
}

/// A side as cuBLASLt sees it. It thinks in columns, so it computes the
/// transposed matmul: result' = rhs' * lhs', where a row-major matrix is its
/// own transpose.
struct Side {
  bool transposed = false; ///< against what the transposed matmul wants
  int64_t rows = 0, columns = 0, leading = 0; ///< as it lies, by columns
};

/// Of a matrix of `rows` x `columns` whose transpose the matmul wants.
Expected<Side> sideOf(const VendorMatrix &m, int64_t rows, int64_t columns) {
  bool byRows = columns == 1 || m.columnStride == 1;
  bool byColumns = rows == 1 || m.rowStride == 1;
  if (byRows && (rows == 1 || m.rowStride >= columns))
    return Side{false, columns, rows,
                rows == 1 ? columns : std::max(m.rowStride, columns)};
  if (byColumns && (columns == 1 || m.columnStride >= rows))
    return Side{true, rows, columns,
                columns == 1 ? rows : std::max(m.columnStride, rows)};
  return deviceError(
      "a side has neither its rows nor its columns one after another");
}

/// An operation, destroyed at the end of a scope.
class Operation {
public:
  explicit Operation(const CublasLt &library) : library(library) {}
  ~Operation() {
    if (made)
      library.operationDestroy(made);
  }
  Operation(const Operation &) = delete;

  Status create(bool tf32) {
    return check(library.operationCreate(
                     &made, tf32 ? kComputeTf32 : kCompute32, kFloat32),
                 "cublasLtMatmulDescCreate");
  }
  template <typename T> Status set(int attribute, T value) {
    return check(library.operationSet(made, attribute, &value, sizeof(T)),
                 "cublasLtMatmulDescSetAttribute");
  }
  CublasLt::Operation get() const { return made; }

private:
  const CublasLt &library;
  CublasLt::Operation made = nullptr;
};

class CublasLtCall : public GpuCall {
public:
  CublasLtCall(std::shared_ptr<const CublasLt> library, VendorMatmul matmul)
      : library(std::move(library)), matmul(std::move(matmul)),
        operation(*this->library) {}
  ~CublasLtCall() override {
    for (CublasLt::Layout layout : {a, b, d})
      if (layout)
        library->layoutDestroy(layout);
  }

  Status prepare();
  Status enqueue(void *const *buffers, void *workspace,
                 Stream stream) const override;

private:
  Status makeLayout(const VendorMatrix &matrix, int64_t rows, int64_t columns,
                    CublasLt::Layout &layout, bool &transposed);
  /// `bias`: where it lies, or null for what only asks for algorithms.
  Status describe(const void *bias, Operation &made) const;
  Status findAlgorithm();
  static void *place(void *const *buffers, const VendorMatrix &matrix) {
    return static_cast<std::byte *>(buffers[matrix.arg]) +
           matrix.offset * static_cast<int64_t>(byteSize(matrix.dtype));
  }

  std::shared_ptr<const CublasLt> library; // outlives what it made
  VendorMatmul matmul;
  Operation operation; // with a bias: without its place
  CublasLt::Layout a = nullptr, b = nullptr, d = nullptr;
  bool aTransposed = false, bTransposed = false;
  CublasLt::Algorithm algorithm = {};
};

Status CublasLtCall::makeLayout(const VendorMatrix &matrix, int64_t rows,
                                int64_t columns, CublasLt::Layout &layout,
                                bool &transposed) {
  std::optional<int> dtype = typeOf(matrix.dtype);
  if (!dtype)
    return deviceError(cat("it has no matmuls of ", name(matrix.dtype)));
  if (!matmul.batch.empty() && matmul.batch[0] > INT32_MAX)
    return deviceError(
        cat("it has no ", matmul.batch[0], " matmuls in one call"));
  ASSIGN_OR_RETURN(Side side, sideOf(matrix, rows, columns));
  transposed = side.transposed;
  TRY(check(library->layoutCreate(&layout, *dtype, side.rows, side.columns,
                                  side.leading),
            "cublasLtMatrixLayoutCreate"));
  if (matmul.batch.empty())
    return success();
  auto batch = static_cast<int32_t>(matmul.batch[0]);
  int64_t stride = matrix.batchStrides[0];
  TRY(check(library->layoutSet(layout, kBatchCount, &batch, sizeof batch),
            "cublasLtMatrixLayoutSetAttribute"));
  return check(library->layoutSet(layout, kBatchStride, &stride, sizeof stride),
               "cublasLtMatrixLayoutSetAttribute");
}

Status CublasLtCall::describe(const void *bias, Operation &made) const {
  TRY(made.create(matmul.tf32 && matmul.lhs.dtype == DType::f32));
  TRY(made.set<int32_t>(kTransposeA, aTransposed ? kTransposed : 0));
  TRY(made.set<int32_t>(kTransposeB, bTransposed ? kTransposed : 0));
  uint32_t epilogue = 0;
  switch (matmul.activation) {
  case VendorActivation::none:
    break;
  case VendorActivation::relu:
    epilogue = kRelu;
    break;
  case VendorActivation::geluTanh:
    epilogue = kGelu;
    break;
  case VendorActivation::gelu:
    return deviceError("it has GELU by tanh only");
  }
  if (matmul.bias) {
    epilogue |= kBias;
    std::optional<int> dtype = typeOf(matmul.bias->dtype);
    if (!dtype)
      return deviceError(cat("it has no bias of ", name(matmul.bias->dtype)));
    TRY(made.set<int32_t>(kBiasType, *dtype));
    if (bias)
      TRY(made.set(kBiasPointer, bias));
  }
  return made.set(kEpilogue, epilogue == 0 ? kPlain : epilogue);
}

Status CublasLtCall::findAlgorithm() {
  CublasLt::Preference preference = nullptr;
  TRY(check(library->preferenceCreate(&preference),
            "cublasLtMatmulPreferenceCreate"));
  int status = library->preferenceSet(preference, kMostWorkspace, &kWorkspace,
                                      sizeof kWorkspace);
  if (status == 0)
    status = library->preferenceSet(preference, kReduction, &kReduceInFloat32,
                                    sizeof kReduceInFloat32);
  const VendorMatrix *sides[] = {&matmul.rhs, &matmul.lhs, &matmul.result,
                                 &matmul.result};
  for (int i = 0; i < 4 && status == 0; ++i) {
    // Arguments are aligned; what begins inside one is as its offset is.
    uint64_t bytes = sides[i]->offset * byteSize(sides[i]->dtype);
    uint32_t aligned = kAlignment;
    while (bytes % aligned)
      aligned /= 2;
    status = library->preferenceSet(preference, kAlignmentA + i, &aligned,
                                    sizeof aligned);
  }
  CublasLt::Heuristic found = {};
  int count = 0;
  if (status == 0)
    status = library->heuristic(library->handle, operation.get(), a, b, d, d,
                                preference, 1, &found, &count);
  library->preferenceDestroy(preference);
  TRY(check(status, "cublasLtMatmulAlgoGetHeuristic"));
  if (count < 1 || found.status != 0)
    return deviceError("it has no algorithm for such a matmul");
  algorithm = found.algorithm;
  scratch = found.workspace;
  return success();
}

Status CublasLtCall::prepare() {
  if (matmul.batch.size() > 1)
    return deviceError("it has matmuls with one batch dim only");
  bool dTransposed = false;
  TRY(makeLayout(matmul.rhs, matmul.depth, matmul.columns, a, aTransposed));
  TRY(makeLayout(matmul.lhs, matmul.rows, matmul.depth, b, bTransposed));
  TRY(makeLayout(matmul.result, matmul.rows, matmul.columns, d, dTransposed));
  if (dTransposed)
    return deviceError("its results lie by rows");
  TRY(describe(nullptr, operation));
  return findAlgorithm();
}

Status CublasLtCall::enqueue(void *const *buffers, void *workspace,
                             Stream stream) const {
  // The bias's place is part of the description, which other runs read.
  Operation placed(*library);
  if (matmul.bias)
    TRY(describe(place(buffers, *matmul.bias), placed));
  const float one = 1, zero = 0;
  void *result = place(buffers, matmul.result);
  return check(
      library->matmul(
          library->handle, matmul.bias ? placed.get() : operation.get(), &one,
          place(buffers, matmul.rhs), a, place(buffers, matmul.lhs), b, &zero,
          result, d, result, d, &algorithm, workspace, scratch, stream),
      "cublasLtMatmul");
}

} // namespace

Expected<std::shared_ptr<const VendorCall>>
cublasLtMatmul(std::shared_ptr<const CublasLt> library,
               const VendorMatmul &matmul) {
  auto call = std::make_shared<CublasLtCall>(std::move(library), matmul);
  TRY(call->prepare());
  return std::shared_ptr<const VendorCall>(std::move(call));
}

} // namespace knapper::cuda
