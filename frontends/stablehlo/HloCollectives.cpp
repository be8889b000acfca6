// What devices hand to each other. One operator of the host's moves blocks
// (capi/pjrt/DeviceOperators.h); what is computed of them is computed here.
#include "frontends/stablehlo/HloCollectives.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"
#include "runtime/operators/Registry.h"

using namespace mlir;

namespace knapper {

bool hasHloDevices() {
  return findOperator(kDevicesDomain, "Exchange") != nullptr;
}

namespace {

using ts::Dim;

/// Tensors of more bytes are summed a part a device.
constexpr int64_t kLargeBytes = 1 << 16;

/// Devices that meet, groups of one size; each device is in one.
struct Groups {
  SmallVector<int64_t> devices;
  int64_t size = 0;
};

std::optional<Groups> groupsOf(HloNode &n) {
  auto table = n.op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  int64_t count = n.importer.devices;
  if (!table || table.getType().getRank() != 2 ||
      !table.getElementType().isInteger(64)) {
    (void)n.unsupported("groups of devices that are no table of numbers");
    return std::nullopt;
  }
  Groups groups{SmallVector<int64_t>(table.value_begin<int64_t>(),
                                     table.value_end<int64_t>()),
                table.getType().getDimSize(1)};
  SmallVector<int64_t> sorted = groups.devices;
  llvm::sort(sorted);
  bool all = static_cast<int64_t>(sorted.size()) == count;
  for (int64_t i = 0; all && i < count; ++i)
    all = sorted[i] == i;
  if (!all || groups.size < 1) {
    (void)n.unsupported("groups of different sizes, or that leave out some of "
                        "the " +
                        Twine(count) + " devices");
    return std::nullopt;
  }
  return groups;
}

/// What the operator gives for `x`; `way`: "gather", "scatter", "sum",
/// "permute" or "number".
Value exchange(HloNode &n, StringRef way, Value x, ArrayRef<int64_t> devices,
               int64_t size, RankedTensorType type) {
  if ((way != "number" && !x) || n.failed())
    return {};
  OpBuilder &b = n.b;
  NamedAttribute parameters[] = {
      b.getNamedAttr("devices", b.getDenseI64ArrayAttr(devices)),
      b.getNamedAttr("group", b.getI64IntegerAttr(size)),
      b.getNamedAttr("site", b.getI64IntegerAttr(n.importer.exchanges++)),
      b.getNamedAttr("way", b.getStringAttr(way)),
  };
  SmallVector<Value> inputs;
  if (x)
    inputs.push_back(x);
  Operation *op = n.external(
      kDevicesDomain, "Exchange", 1, b.getDictionaryAttr(parameters),
      SmallVector<bool>(inputs.size(), true), inputs, {}, TypeRange(type));
  return op ? op->getResult(0) : Value();
}

RankedTensorType typeOf(ArrayRef<int64_t> shape, Value like) {
  return RankedTensorType::get(shape, ts::elementTypeOf(like));
}

/// Every member's `x`, along a new first dim.
Value gather(HloNode &n, Value x, const Groups &groups) {
  SmallVector<int64_t> shape{groups.size};
  llvm::append_range(shape, n.shape(x));
  if (groups.size == 1)
    return n.reshapeTo(x, shape);
  return exchange(n, "gather", x, groups.devices, groups.size,
                  typeOf(shape, x));
}

/// The first dim counts members: block i goes to the i-th, and block i of the
/// result comes from it.
Value scatter(HloNode &n, Value x, const Groups &groups) {
  if (groups.size == 1)
    return x;
  return exchange(n, "scatter", x, groups.devices, groups.size,
                  typeOf(n.shape(x), x));
}

/// Cuts dim `dim` into `count` blocks and makes them the first dim.
Value split(HloNode &n, Value x, int64_t dim, int64_t count) {
  SmallVector<int64_t> shape = n.shape(x), order{dim};
  if (shape[dim] % count != 0) {
    (void)n.damaged("cuts " + Twine(shape[dim]) + " elements into " +
                    Twine(count));
    return {};
  }
  shape[dim] /= count;
  shape.insert(shape.begin() + dim, count);
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != dim)
      order.push_back(i);
  return n.transpose(n.reshapeTo(x, shape), order);
}

/// The first dim's blocks side by side along dim `dim` of one.
Value join(HloNode &n, Value x, int64_t dim) {
  if (!x)
    return {};
  SmallVector<int64_t> shape = n.shape(x), order;
  for (int64_t i = 1; i <= dim; ++i)
    order.push_back(i);
  order.push_back(0);
  for (int64_t i = dim + 1; i < static_cast<int64_t>(shape.size()); ++i)
    order.push_back(i);
  int64_t count = shape[0];
  shape.erase(shape.begin());
  shape[dim] *= count;
  return n.reshapeTo(n.transpose(x, order), shape);
}

/// The op's function over the first dim.
Value combined(HloNode &n, Value x) {
  if (!x)
    return {};
  SmallVector<int64_t> shape = n.shape(x);
  int64_t count = shape[0];
  if (std::optional<ts::ReduceKind> kind = hloCombiner(n.op, 0); kind && count)
    return n.reduce(*kind, x, {0}, false);
  Value result;
  for (int64_t i = 0; i < count; ++i) {
    Value each = n.sliceDim(x, 0, n.dim(i), n.dim(1));
    each = n.reshapeTo(each, ArrayRef(shape).drop_front());
    if (!result) {
      result = each;
      continue;
    }
    std::optional<SmallVector<Value>> made = hloApply(n, 0, {result, each});
    if (made && made->size() != 1)
      (void)n.damaged("a region gives " + Twine(made->size()) + " values");
    if (!made || n.failed())
      return {};
    result = made->front();
  }
  return result;
}

Value allReduced(HloNode &n, Value x, const Groups &groups) {
  SmallVector<int64_t> shape = n.shape(x);
  int64_t count = 1, size = groups.size;
  for (int64_t each : shape)
    count *= each;
  if (size == 1)
    return x;
  Type element = ts::elementTypeOf(x);
  bool isAdded = element.isF32() || element.isF64() || element.isInteger(32) ||
                 element.isInteger(64);
  if (isAdded && hloCombiner(n.op, 0) == ts::ReduceKind::add)
    return exchange(n, "sum", x, groups.devices, size, typeOf(shape, x));
  if (size == 2 || count / 8 * element.getIntOrFloatBitWidth() < kLargeBytes)
    return combined(n, gather(n, x, groups));
  // Each device combines a part, and all get all parts.
  int64_t each = (count + size - 1) / size;
  Value flat = n.reshapeTo(x, {count});
  if (each * size != count) {
    Value zero = n.scalar(0, ts::elementTypeOf(x));
    flat = n.pad(flat, zero, {0}, {each * size - count}, {0});
  }
  Value part = combined(n, scatter(n, n.reshapeTo(flat, {size, each}), groups));
  Value all = n.reshapeTo(gather(n, part, groups), {each * size});
  if (each * size != count)
    all = n.sliceDim(all, 0, n.dim(0), n.dim(count));
  return n.reshapeTo(all, shape);
}

LogicalResult importAllReduce(HloNode &n) {
  std::optional<Groups> groups = groupsOf(n);
  if (!groups)
    return failure();
  if (n.size() != n.results.size())
    return n.damaged("has as many results as operands");
  for (size_t i = 0; i < n.size(); ++i)
    if (mlir::failed(n.out(allReduced(n, n[i], *groups), i)))
      return failure();
  return mlir::success();
}

LogicalResult importReduceScatter(HloNode &n) {
  std::optional<Groups> groups = groupsOf(n);
  int64_t dim = n.dimension("scatter_dimension", ts::rankOf(n[0]));
  if (!groups || n.failed())
    return failure();
  Value blocks = split(n, n[0], dim, groups->size);
  return n.out(combined(n, scatter(n, blocks, *groups)));
}

LogicalResult importAllGather(HloNode &n) {
  std::optional<Groups> groups = groupsOf(n);
  if (!groups)
    return failure();
  if (n.size() != n.results.size())
    return n.damaged("has as many results as operands");
  for (size_t i = 0; i < n.size(); ++i) {
    int64_t dim = n.dimension("all_gather_dim", ts::rankOf(n[i]));
    if (n.failed() ||
        mlir::failed(n.out(join(n, gather(n, n[i], *groups), dim), i)))
      return failure();
  }
  return mlir::success();
}

LogicalResult importAllToAll(HloNode &n) {
  std::optional<Groups> groups = groupsOf(n);
  if (!groups)
    return failure();
  if (n.size() != n.results.size())
    return n.damaged("has as many results as operands");
  for (size_t i = 0; i < n.size(); ++i) {
    int64_t from = n.dimension("split_dimension", ts::rankOf(n[i]));
    int64_t to = n.dimension("concat_dimension", ts::rankOf(n[i]));
    if (n.failed())
      return failure();
    if (n.integer("split_count") != groups->size)
      return n.damaged("cuts into other parts than its groups have devices");
    Value blocks = scatter(n, split(n, n[i], from, groups->size), *groups);
    if (mlir::failed(n.out(join(n, blocks, to), i)))
      return failure();
  }
  return mlir::success();
}

/// From device to device; who is no target has zeros.
LogicalResult permuted(HloNode &n, ArrayRef<int64_t> pairs) {
  int64_t count = n.importer.devices;
  SmallVector<int64_t> source(count, -1);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] < 0 || pairs[i] >= count || pairs[i + 1] < 0 ||
        pairs[i + 1] >= count || source[pairs[i + 1]] >= 0)
      return n.damaged("sends to a device twice, or to one that there is not");
    source[pairs[i + 1]] = pairs[i];
  }
  if (count == 1)
    return n.out(source[0] == 0 ? n[0] : n.splatLike(0, n[0]));
  return n.out(
      exchange(n, "permute", n[0], source, count, typeOf(n.shape(n[0]), n[0])));
}

LogicalResult importPermute(HloNode &n) {
  return permuted(n, n.integers("source_target_pairs"));
}

LogicalResult importBroadcast(HloNode &n) {
  std::optional<Groups> groups = groupsOf(n);
  if (!groups)
    return failure();
  SmallVector<int64_t> pairs;
  for (auto [i, device] : llvm::enumerate(groups->devices)) {
    pairs.push_back(groups->devices[i - i % groups->size]);
    pairs.push_back(device);
  }
  return permuted(n, pairs);
}

/// The number of the device that runs this, i64.
Value deviceNumber(HloNode &n) {
  if (n.importer.devices == 1)
    return n.integerScalar(0, n.b.getI64Type());
  return exchange(n, "number", {}, {}, 1,
                  RankedTensorType::get({}, n.b.getI64Type()));
}

LogicalResult importPartitionId(HloNode &n) {
  Type element = n.element();
  return element ? n.out(n.convert(deviceNumber(n), element)) : failure();
}

LogicalResult importReplicaId(HloNode &n) {
  Type element = n.element();
  return element ? n.out(n.integerScalar(0, element)) : failure();
}

/// The device's part of a tensor that it has as a whole (HloPartition.h).
LogicalResult importPart(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]), count = n.importer.devices;
  SmallVector<int64_t> starts =
      n.integers("starts", static_cast<size_t>(rank * count));
  RankedTensorType type = n.resultType();
  if (!type || n.failed())
    return failure();
  SmallVector<int64_t> sizes(type.getShape().take_back(rank));
  Type i64 = n.b.getI64Type();
  Value number = deviceNumber(n);
  SmallVector<Value> at;
  for (int64_t dim = 0; dim < rank; ++dim) {
    SmallVector<int64_t> column;
    for (int64_t device = 0; device < count; ++device)
      column.push_back(starts[device * rank + dim]);
    if (llvm::all_equal(column)) {
      at.push_back(n.integerScalar(column[0], i64));
      continue;
    }
    Value table = n.constant(DenseElementsAttr::get(
        RankedTensorType::get({count}, i64), ArrayRef<int64_t>(column)));
    at.push_back(n.reshapeTo(n.slicedAt(table, {number}, {1}), {}));
  }
  return n.out(n.slicedAt(n[0], at, sizes));
}

constexpr HloRow rows[] = {
    {"all_gather", 1, importAllGather},
    {"all_reduce", 1, importAllReduce},
    {"all_to_all", 1, importAllToAll},
    {"collective_broadcast", 1, importBroadcast},
    {"collective_permute", 1, importPermute},
    {"part", 1, importPart},
    {"partition_id", 0, importPartitionId},
    {"reduce_scatter", 1, importReduceScatter},
    {"replica_id", 0, importReplicaId},
};

} // namespace

llvm::ArrayRef<HloRow> hloCollectiveRows() { return rows; }

} // namespace knapper
