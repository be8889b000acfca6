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
      int64_t inner = 1, size = 0;
      for (const Axis &axis : llvm::reverse(mesh.axes)) {
        if (axis.name == name.getValue()) {
          size = axis.size;
          break;
        }
        inner *= axis.size;
      }
      if (size == 0)
        return std::nullopt;
      Attribute sub = sdyField(reference, kAxisReference, 1);
      if (std::optional<int64_t> before = numberField(sub, kSubAxis, 0)) {
        std::optional<int64_t> own = numberField(sub, kSubAxis, 1);
        if (!own || *own < 1 || *before < 1 || *before > size ||
            *own > size / *before || size % (*before * *own) != 0)
          return std::nullopt;
        inner *= size / (*before * *own);
        size = *own;
      }
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
