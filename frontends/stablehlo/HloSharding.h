//===- HloSharding.h - Which part of a tensor each device has -------------===//
//
// Programs for several devices say it as axes of a mesh by dim (sdy.sharding).
// Here it is what that comes to: by device and dim, the number of the part.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringMap.h"

namespace knapper {

struct HloSharding {
  size_t devices;
  /// By dim: how many equal parts it is cut into, 1 or more.
  llvm::SmallVector<int64_t> parts;
  /// At device * rank + dim: the number of the part that the device has.
  llvm::SmallVector<int64_t> places;

  size_t rank() const { return parts.size(); }
  int64_t place(size_t device, size_t dim) const {
    return places[device * rank() + dim];
  }
  /// Every device has the whole tensor.
  bool isWhole() const;
  /// Both cut this dim alike.
  bool isAlike(const HloSharding &other, size_t dim) const;
  bool operator==(const HloSharding &other) const = default;
  /// By device: which one it is of those that have the same part.
  llvm::SmallVector<int64_t> copies() const;
  /// The dims of a part; nothing where a cut leaves a rest.
  std::optional<llvm::SmallVector<int64_t>>
  local(llvm::ArrayRef<int64_t> shape) const;
  /// As `xla.OpSharding` lists it: parts by dim, devices with the same part,
  /// then the devices, in the order of parts.
  llvm::SmallVector<int64_t> tiles() const;
};

HloSharding wholeHloSharding(size_t rank, size_t devices);

/// The meshes of a program, and what shardings that name their axes come to.
class HloMeshes {
public:
  explicit HloMeshes(size_t devices) : devices(devices) {}

  /// Notes an op `sdy.mesh`; false where it is damaged or of another number of
  /// devices. Meshes without axes say nothing.
  bool add(mlir::Operation *mesh);
  /// An attribute `sdy.sharding` of a tensor of this rank. `axes`: of which
  /// ones cuts are looked at; null: of all. Nothing where it is damaged or of
  /// a kind that is not known.
  std::optional<HloSharding>
  sharding(mlir::Attribute attribute, size_t rank,
           const llvm::SmallVector<llvm::StringRef> *axes = nullptr) const;

  /// Groups of devices that differ along these axes alone, as VHLO names them
  /// (an attribute of a mesh and axes): one group after the other, and their
  /// size. Nothing where it is none.
  std::optional<std::pair<llvm::SmallVector<int64_t>, int64_t>>
  groups(mlir::Attribute attribute) const;
  /// Devices stand in every mesh as they are numbered.
  bool isOrdered() const { return ordered; }

private:
  struct Axis {
    llvm::StringRef name;
    int64_t size;
  };
  struct Mesh {
    llvm::SmallVector<Axis> axes;
    llvm::SmallVector<int64_t> order; ///< by place in the mesh: the device
  };
  /// An axis, or a part of one: place / inner % size.
  struct Stride {
    int64_t size, inner;
  };
  static std::optional<Stride> strideOf(const Mesh &mesh, llvm::StringRef name,
                                        mlir::Attribute sub, int64_t subCode);

  size_t devices;
  bool ordered = true;
  llvm::StringMap<Mesh> meshes;
};

/// Field `index` of an attribute of sdy that has one of these codes; null where
/// it is none.
mlir::Attribute sdyField(mlir::Attribute attribute,
                         llvm::ArrayRef<int64_t> codes, size_t index);

} // namespace knapper
