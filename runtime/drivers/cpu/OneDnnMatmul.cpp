#include "runtime/drivers/cpu/OneDnnMatmul.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace knapper::cpu {
namespace {

// Numbers of oneDNN 3's dnnl_types.h.
constexpr int kLhs = 1, kResult = 17, kRhs = 33, kBias = 41, kScratchpad = 80;
constexpr int kQueryName = 8, kUserScratchpad = 1;
constexpr int kRelu = 32, kGeluTanh = 43, kGeluErf = 49;
constexpr int kQueryScratchpadDesc = 136;
constexpr unsigned kInOrder = 1;
constexpr int kUnimplemented = 3;

std::optional<int> typeOf(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return 1;
  case DType::bf16:
    return 2;
  case DType::f32:
    return 3;
  default:
    return std::nullopt;
  }
}

/// Destroys what a function of the library made, at the end of a scope.
template <typename T> class Owned {
public:
  explicit Owned(int (*destroy)(T)) : destroy(destroy) {}
  ~Owned() {
    if (value)
      destroy(value);
  }
  Owned(Owned &&other) noexcept
      : value(std::exchange(other.value, nullptr)), destroy(other.destroy) {}
  Owned &operator=(Owned &&) = delete;
  T *operator&() { return &value; }
  operator T() const { return value; }

private:
  T value = nullptr;
  int (*destroy)(T);
};

/// The description of a matrix; strides of dims of one element do not matter,
/// but to the library.
Status describe(const OneDnn &library, const VendorMatrix &matrix, int64_t rows,
                int64_t columns, Owned<OneDnn::Desc> &desc) {
  std::optional<int> dtype = typeOf(matrix.dtype);
  if (!dtype)
    return deviceError(cat("it has no matmuls of ", name(matrix.dtype)));
  int64_t strides[2] = {matrix.rowStride, matrix.columnStride};
  if (columns == 1)
    strides[1] = strides[0] == 1 ? rows : 1;
  if (rows == 1)
    strides[0] = strides[1] == 1 ? columns : 1;
  bool byRows = strides[1] == 1 && strides[0] >= columns;
  bool byColumns = strides[0] == 1 && strides[1] >= rows;
  if (!byRows && !byColumns)
    return deviceError(
        "a side has neither its rows nor its columns one after another");
  int64_t sizes[2] = {rows, columns};
  if (int status = library.descCreate(&desc, 2, sizes, *dtype, strides))
    return deviceError(
        cat("dnnl_memory_desc_create_with_strides returned ", status));
  return success();
}

/// One shape of tile, ready to be executed.
struct Tile {
  explicit Tile(const OneDnn &library)
      : lhs(library.descDestroy), rhs(library.descDestroy),
        bias(library.descDestroy), result(library.descDestroy),
        primitiveDesc(library.primitiveDescDestroy),
        primitive(library.primitiveDestroy) {}
  Owned<OneDnn::Desc> lhs, rhs, bias, result;
  Owned<OneDnn::PrimitiveDesc> primitiveDesc;
  Owned<OneDnn::Primitive> primitive;
  OneDnn::Desc scratchpad = nullptr; // of primitiveDesc
};

Expected<Tile> makeTile(const OneDnn &library, const VendorMatmul &matmul,
                        int64_t rows, int64_t columns, uint64_t &scratch) {
  Tile tile(library);
  TRY(describe(library, matmul.lhs, rows, matmul.depth, tile.lhs));
  TRY(describe(library, matmul.rhs, matmul.depth, columns, tile.rhs));
  TRY(describe(library, matmul.result, rows, columns, tile.result));
  if (matmul.bias)
    TRY(describe(library, *matmul.bias, 1, columns, tile.bias));
  Owned<OneDnn::Attributes> attributes(library.attributesDestroy);
  Owned<OneDnn::PostOps> after(library.postOpsDestroy);
  auto check = [](int status, const char *call) -> Status {
    return status == 0 ? success()
           : status == kUnimplemented
               ? deviceError("it has no such matmul for this processor")
               : deviceError(cat(call, " returned ", status));
  };
  TRY(check(library.attributesCreate(&attributes),
            "dnnl_primitive_attr_create"));
  TRY(check(library.setScratchpadMode(attributes, kUserScratchpad),
            "dnnl_primitive_attr_set_scratchpad_mode"));
  if (matmul.activation != VendorActivation::none) {
    int algorithm = matmul.activation == VendorActivation::relu   ? kRelu
                    : matmul.activation == VendorActivation::gelu ? kGeluErf
                                                                  : kGeluTanh;
    TRY(check(library.postOpsCreate(&after), "dnnl_post_ops_create"));
    TRY(check(library.appendElementwise(after, algorithm, 0, 0),
              "dnnl_post_ops_append_eltwise"));
    TRY(check(library.setPostOps(attributes, after),
              "dnnl_primitive_attr_set_post_ops"));
  }
  TRY(check(library.matmulCreate(&tile.primitiveDesc, library.engine, tile.lhs,
                                 tile.rhs, tile.bias, tile.result, attributes),
            "dnnl_matmul_primitive_desc_create"));
  const char *implementation = nullptr;
  TRY(check(library.query(tile.primitiveDesc, kQueryName, 0, &implementation),
            "dnnl_primitive_desc_query"));
  if (implementation && std::string_view(implementation).starts_with("ref"))
    return deviceError("it has only its reference for such a matmul");
  TRY(check(library.query(tile.primitiveDesc, kQueryScratchpadDesc, 0,
                          &tile.scratchpad),
            "dnnl_primitive_desc_query"));
  TRY(check(library.primitiveCreate(&tile.primitive, tile.primitiveDesc),
            "dnnl_primitive_create"));
  scratch = std::max<uint64_t>(scratch, library.descBytes(tile.scratchpad));
  return tile;
}

class OneDnnCall : public CpuCall {
public:
  OneDnnCall(std::shared_ptr<const OneDnn> library, VendorMatmul matmul,
             MatmulTiles shares)
      : library(std::move(library)), matmul(std::move(matmul)), shares(shares) {
    grid = shares.count();
  }

  Status prepare() {
    OneDnn::Alone alone(*library);
    int64_t lastRows = shares.rows - (shares.down() - 1) * shares.tileRows;
    int64_t lastColumns =
        shares.columns - (shares.across() - 1) * shares.tileColumns;
    for (int64_t rows : {shares.tileRows, lastRows})
      for (int64_t columns : {shares.tileColumns, lastColumns}) {
        ASSIGN_OR_RETURN(Tile tile,
                         makeTile(*library, matmul, rows, columns, scratch));
        tiles.push_back(std::move(tile));
      }
    return success();
  }

  void run(void *const *buffers, const KernelContext &context, int64_t begin,
           int64_t end) const override {
    OneDnn::Alone alone(*library);
    for (int64_t program = begin; program < end; ++program)
      if (!runTile(buffers, context, program))
        std::atomic_ref(*context.status)
            .store(kernelLibraryFailed, std::memory_order_relaxed);
  }

private:
  /// Where a tile of the matrix begins.
  std::byte *place(void *const *buffers, const VendorMatrix &matrix,
                   int64_t batch, int64_t row, int64_t column) const {
    int64_t at =
        matrix.offset + row * matrix.rowStride + column * matrix.columnStride;
    for (size_t i = matmul.batch.size(); i-- > 0;) {
      at += batch % matmul.batch[i] * matrix.batchStrides[i];
      batch /= matmul.batch[i];
    }
    return static_cast<std::byte *>(buffers[matrix.arg]) +
           at * static_cast<int64_t>(byteSize(matrix.dtype));
  }

  bool runTile(void *const *buffers, const KernelContext &context,
               int64_t program) const {
    int64_t across = shares.across(), down = shares.down();
    int64_t j = program % across, i = program / across % down;
    int64_t batch = program / across / down;
    const Tile &tile = tiles[2 * (i == down - 1) + (j == across - 1)];
    int64_t row = i * shares.tileRows, column = j * shares.tileColumns;
    const OneDnn &dnn = *library;
    Owned<OneDnn::Stream> stream(dnn.streamDestroy);
    if (dnn.streamCreate(&stream, dnn.engine, kInOrder) != 0)
      return false;
    auto none = [&] { return Owned<OneDnn::Memory>(dnn.memoryDestroy); };
    Owned<OneDnn::Memory> memories[5] = {none(), none(), none(), none(),
                                         none()};
    OneDnn::Argument arguments[5];
    int count = 0;
    auto add = [&](int which, OneDnn::Desc desc, void *address) {
      if (dnn.memoryCreate(&memories[count], desc, dnn.engine, address) != 0)
        return false;
      arguments[count] = {which, memories[count]};
      ++count;
      return true;
    };
    return add(kLhs, tile.lhs, place(buffers, matmul.lhs, batch, row, 0)) &&
           add(kRhs, tile.rhs, place(buffers, matmul.rhs, batch, 0, column)) &&
           add(kResult, tile.result,
               place(buffers, matmul.result, batch, row, column)) &&
           add(kScratchpad, tile.scratchpad, context.scratch) &&
           (!matmul.bias ||
            add(kBias, tile.bias,
                place(buffers, *matmul.bias, batch, 0, column))) &&
           dnn.execute(tile.primitive, stream, count, arguments) == 0;
  }

  std::shared_ptr<const OneDnn> library; // outlives what it made
  VendorMatmul matmul;
  MatmulTiles shares;
  std::vector<Tile> tiles; // [last rows][last columns]
};

} // namespace

MatmulTiles tilesOf(const VendorMatmul &matmul, int threads) {
  MatmulTiles tiles;
  for (int64_t size : matmul.batch)
    tiles.batch *= size;
  tiles.rows = tiles.tileRows = matmul.rows;
  tiles.columns = tiles.tileColumns = matmul.columns;
  // Fewer operations than these are not worth a second thread.
  constexpr double kWorthwhile = 1e6;
  double operations = 2.0 * matmul.rows * matmul.columns * matmul.depth;
  if (threads <= 1 || tiles.batch >= 4 * threads ||
      operations * static_cast<double>(tiles.batch) < kWorthwhile)
    return tiles;
  // Tiles a thread reads the fewest elements for: nearly square ones.
  int64_t wanted = (threads + tiles.batch - 1) / tiles.batch;
  constexpr int64_t kRows = 8, kColumns = 64; // whole register tiles
  auto share = [](int64_t size, int64_t parts, int64_t step) {
    return ((size + parts - 1) / parts + step - 1) / step * step;
  };
  int64_t best = -1;
  for (int64_t down = 1; down <= wanted; ++down) {
    int64_t rows = std::min(matmul.rows, share(matmul.rows, down, kRows));
    int64_t columns =
        std::min(matmul.columns,
                 share(matmul.columns, (wanted + down - 1) / down, kColumns));
    MatmulTiles other = tiles;
    other.tileRows = rows;
    other.tileColumns = columns;
    // The longest line of tiles that one thread gets, in elements read.
    int64_t turns = (other.count() + threads - 1) / threads;
    int64_t cost = turns * rows * columns + turns * 16 * (rows + columns);
    if (best >= 0 && cost >= best)
      continue;
    best = cost;
    tiles.tileRows = rows;
    tiles.tileColumns = columns;
  }
  return tiles;
}

Expected<std::shared_ptr<const VendorCall>>
oneDnnMatmul(std::shared_ptr<const OneDnn> library, const VendorMatmul &matmul,
             int threads) {
  auto call = std::make_shared<OneDnnCall>(std::move(library), matmul,
                                           tilesOf(matmul, threads));
  TRY(call->prepare());
  return std::shared_ptr<const VendorCall>(std::move(call));
}

} // namespace knapper::cpu
