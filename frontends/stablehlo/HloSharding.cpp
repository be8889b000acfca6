#include "frontends/stablehlo/HloSharding.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace mlir;

namespace knapper {

// Codes of sdy's attributes in bytecode.
constexpr int64_t kAxis = 1, kMesh = 2, kSubAxis = 3, kAxisReference = 4,
                  kDim = 5, kSharding = 6, kShardingUnreduced = 15,
                  kShardingReduced = 17;
// And of VHLO's, of groups by mesh.
constexpr int64_t kGroupSubAxis = 21, kGroupAxis = 22, kGroups = 23;

Attribute sdyField(Attribute attribute, ArrayRef<int64_t> codes, size_t index) {
  auto list = dyn_cast_if_present<ArrayAttr>(attribute);
  auto code = list && index + 1 < list.size() ? dyn_cast<IntegerAttr>(list[0])
                                              : IntegerAttr();
  return code && llvm::is_contained(codes, code.getInt()) ? list[index + 1]
                                                          : Attribute();
}

static ArrayAttr listField(Attribute attribute, ArrayRef<int64_t> codes,
                           size_t index) {
  return dyn_cast_if_present<ArrayAttr>(sdyField(attribute, codes, index));
}

static std::optional<int64_t> numberField(Attribute attribute, int64_t code,
                                          size_t index) {
  auto number =
      dyn_cast_if_present<IntegerAttr>(sdyField(attribute, code, index));
  return number ? std::optional(number.getInt()) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

HloSharding wholeHloSharding(size_t rank, size_t devices) {
  return {devices, SmallVector<int64_t>(rank, 1),
          SmallVector<int64_t>(rank * devices, 0)};
}

bool HloSharding::isWhole() const {
  return llvm::all_of(parts, [](int64_t count) { return count == 1; });
}

bool HloSharding::isAlike(const HloSharding &other, size_t dim) const {
  if (parts[dim] != other.parts[dim])
    return false;
  for (size_t at = dim; at < places.size(); at += rank())
    if (places[at] != other.places[at])
      return false;
  return true;
}

SmallVector<int64_t> HloSharding::copies() const {
  std::map<ArrayRef<int64_t>, int64_t> seen;
  SmallVector<int64_t> result;
  for (size_t device = 0; device < devices; ++device)
    result.push_back(seen[ArrayRef(places).slice(device * rank(), rank())]++);
  return result;
}

std::optional<SmallVector<int64_t>>
HloSharding::local(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> dims;
  for (auto [size, count] : llvm::zip_equal(shape, parts)) {
    if (size % count != 0)
      return std::nullopt;
    dims.push_back(size / count);
  }
  return dims;
}

SmallVector<int64_t> HloSharding::tiles() const {
  SmallVector<int64_t> order = copies(), result = parts;
  int64_t cut = 1;
  for (int64_t count : parts)
    cut *= count;
  int64_t same = static_cast<int64_t>(devices) / cut;
  result.push_back(same);
  result.resize(result.size() + devices);
  MutableArrayRef<int64_t> list(result.end() - devices, result.end());
  for (size_t device = 0; device < devices; ++device) {
    int64_t at = 0;
    for (size_t dim = 0; dim < rank(); ++dim)
      at = at * parts[dim] + place(device, dim);
    list[at * same + order[device]] = static_cast<int64_t>(device);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Meshes
//===----------------------------------------------------------------------===//

bool HloMeshes::add(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>("sym_name");
  Attribute attribute = op->getAttr("mesh");
  ArrayAttr axes = listField(attribute, kMesh, 0);
  auto ids =
      dyn_cast_if_present<DenseI64ArrayAttr>(sdyField(attribute, kMesh, 1));
  if (!name || !axes || !ids)
    return false;
  if (axes.empty())
    return true;
  Mesh mesh;
  size_t count = 1;
  for (Attribute axis : axes) {
    auto text = dyn_cast_if_present<StringAttr>(sdyField(axis, kAxis, 0));
    std::optional<int64_t> size = numberField(axis, kAxis, 1);
    if (!text || !size || *size < 1 ||
        *size > static_cast<int64_t>(devices / count))
      return false;
    mesh.axes.push_back({text.getValue(), *size});
    count *= static_cast<size_t>(*size);
  }
  if (count != devices)
    return false;
  for (size_t i = 0; i < devices; ++i)
    mesh.order.push_back(static_cast<int64_t>(i));
  if (!ids.empty())
    mesh.order.assign(ids.asArrayRef().begin(), ids.asArrayRef().end());
  SmallVector<int64_t> sorted = mesh.order;
  llvm::sort(sorted);
  if (sorted.size() != devices)
    return false;
  for (size_t i = 0; i < devices; ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return false;
  ordered &= llvm::is_sorted(mesh.order);
  meshes[name.getValue()] = std::move(mesh);
  return true;
}

std::optional<HloMeshes::Stride> HloMeshes::strideOf(const Mesh &mesh,
                                                     StringRef name,
                                                     Attribute sub,
                                                     int64_t subCode) {
  int64_t inner = 1, size = 0;
  for (const Axis &axis : llvm::reverse(mesh.axes)) {
    if (axis.name == name) {
      size = axis.size;
      break;
    }
    inner *= axis.size;
  }
  if (size == 0)
    return std::nullopt;
  if (std::optional<int64_t> before = numberField(sub, subCode, 0)) {
    std::optional<int64_t> own = numberField(sub, subCode, 1);
    if (!own || *own < 1 || *before < 1 || *before > size ||
        *own > size / *before || size % (*before * *own) != 0)
      return std::nullopt;
    inner *= size / (*before * *own);
    size = *own;
  }
  return Stride{size, inner};
}

std::optional<std::pair<SmallVector<int64_t>, int64_t>>
HloMeshes::groups(Attribute attribute) const {
  Attribute named = sdyField(attribute, kGroups, 0);
  auto axes = dyn_cast_if_present<ArrayAttr>(sdyField(attribute, kGroups, 1));
  StringRef name;
  if (auto symbol = dyn_cast_if_present<FlatSymbolRefAttr>(named))
    name = symbol.getValue();
  else if (auto text = dyn_cast_if_present<StringAttr>(named))
    name = text.getValue();
  auto found = meshes.find(name);
  if (!axes || found == meshes.end())
    return std::nullopt;
  const Mesh &mesh = found->second;
  SmallVector<Stride> strides;
  int64_t size = 1;
  for (Attribute axis : axes) {
    auto text = dyn_cast_if_present<StringAttr>(sdyField(axis, kGroupAxis, 0));
    std::optional<Stride> stride;
    if (text)
      stride = strideOf(mesh, text.getValue(), sdyField(axis, kGroupAxis, 1),
                        kGroupSubAxis);
    if (!stride || size > static_cast<int64_t>(devices) / stride->size)
      return std::nullopt;
    size *= stride->size;
    strides.push_back(*stride);
  }
  // By the other axes' coordinates: the group, in the order of its axes.
  std::map<int64_t, SmallVector<int64_t>> byRest;
  for (size_t place = 0; place < devices; ++place) {
    int64_t rest = static_cast<int64_t>(place), at = 0;
    for (auto [count, inner] : strides) {
      int64_t own = static_cast<int64_t>(place) / inner % count;
      rest -= own * inner;
      at = at * count + own;
    }
    SmallVector<int64_t> &group = byRest[rest];
    group.resize(size, -1);
    group[at] = mesh.order[place];
  }
  SmallVector<int64_t> members;
  for (const auto &[rest, group] : byRest)
    llvm::append_range(members, group);
  return std::pair(members, size);
}

std::optional<HloSharding>
HloMeshes::sharding(Attribute attribute, size_t rank,
                    const SmallVector<StringRef> *only) const {
  constexpr int64_t codes[] = {kSharding, kShardingUnreduced, kShardingReduced};
  auto named =
      dyn_cast_if_present<FlatSymbolRefAttr>(sdyField(attribute, codes, 0));
  ArrayAttr dims = listField(attribute, codes, 1);
  if (ArrayAttr unreduced = listField(attribute, codes, 3);
      unreduced && !unreduced.empty())
    return std::nullopt; // sums that are still to be made
  if (!named || !dims || dims.size() != rank)
    return std::nullopt;
  HloSharding result = wholeHloSharding(rank, devices);
  auto found = meshes.find(named.getValue());
  for (auto [dim, cuts] : llvm::enumerate(dims)) {
    ArrayAttr axes = listField(cuts, kDim, 0);
    if (!axes)
      return std::nullopt;
    for (Attribute reference : axes) {
      auto name = dyn_cast_if_present<StringAttr>(
          sdyField(reference, kAxisReference, 0));
      if (!name || found == meshes.end())
        return std::nullopt;
      if (only && !llvm::is_contained(*only, name.getValue()))
        continue;
      const Mesh &mesh = found->second;
      std::optional<Stride> stride =
          strideOf(mesh, name.getValue(),
                   sdyField(reference, kAxisReference, 1), kSubAxis);
      if (!stride)
        return std::nullopt;
      auto [size, inner] = *stride;
      if (result.parts[dim] > static_cast<int64_t>(devices) / size)
        return std::nullopt; // an axis twice
      result.parts[dim] *= size;
      for (size_t i = 0; i < devices; ++i) {
        int64_t &place = result.places[mesh.order[i] * rank + dim];
        place = place * size + static_cast<int64_t>(i) / inner % size;
      }
    }
  }
  // As many devices for every part; none where an axis cuts twice.
  int64_t cut = 1;
  for (int64_t count : result.parts)
    if ((cut *= count) > static_cast<int64_t>(devices))
      return std::nullopt;
  for (int64_t copy : result.copies())
    if (copy >= static_cast<int64_t>(devices) / cut)
      return std::nullopt;
  return result;
}

} // namespace knapper
