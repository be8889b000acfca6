// Arrays of a GPU for who takes DLPack: a capsule that holds the array's
// memory, not the array, so that its end needs nothing of Python's, whose
// interpreter may be raising then, or be gone. The interpreter is the
// process's, found at run time.
#include "capi/DLTensor.h"
#include "capi/pjrt/ArrayMemory.h"
#include <dlfcn.h>
#include <memory>
#include <vector>

using knapper::pjrt::ArrayBlock;
using knapper::pjrt::LentBlocks;

namespace {

/// DLManagedTensor of DLPack 0.8.
struct ManagedTensor {
  knapper::capi::DLTensor tensor;
  void *context;
  void (*deleter)(ManagedTensor *);
};

constexpr char kName[] = "dltensor";

/// Of Python's stable ABI; objects are opaque.
struct Python {
  void *(*newCapsule)(void *pointer, const char *name, void (*end)(void *));
  int (*isValid)(void *capsule, const char *name);
  void *(*pointerOf)(void *capsule, const char *name);

  Python() {
    find(newCapsule, "PyCapsule_New");
    find(isValid, "PyCapsule_IsValid");
    find(pointerOf, "PyCapsule_GetPointer");
  }
  template <typename F> static void find(F &function, const char *name) {
    function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
};

const Python &python() {
  static const Python functions;
  return functions;
}

struct CapsuleOwner {
  ManagedTensor managed{};
  std::vector<int64_t> shape;
  std::shared_ptr<ArrayBlock> block; ///< null: an array without elements
};

void endOf(ManagedTensor *tensor) {
  delete static_cast<CapsuleOwner *>(tensor->context);
}

/// Nobody took what the capsule holds, else it has another name.
void endOfCapsule(void *capsule) {
  if (!python().isValid(capsule, kName))
    return;
  auto *tensor =
      static_cast<ManagedTensor *>(python().pointerOf(capsule, kName));
  tensor->deleter(tensor);
}

} // namespace

/// A new reference to a capsule of the array whose elements lie at `data` on
/// GPU number `device`, dense and row-major; null where there is no memory, or
/// no array of ours lies there any more. `code` and `bits` as DLPack has them.
/// The caller holds Python's lock.
extern "C" __attribute__((visibility("default"))) void *
knapper_dlpack_capsule(void *data, int32_t device, uint8_t code, uint8_t bits,
                       int32_t rank, const int64_t *dims) noexcept {
  try {
    auto owner = std::make_unique<CapsuleOwner>();
    if (data) {
      owner->block = LentBlocks::ofProcess().find(data);
      if (!owner->block)
        return nullptr;
      owner->block->lend();
    }
    owner->shape.assign(dims, dims + rank);
    owner->managed = {{data, knapper::capi::dlCuda, device, rank, code, bits, 1,
                       owner->shape.data(), nullptr, 0},
                      owner.get(),
                      endOf};
    void *capsule = python().newCapsule(&owner->managed, kName, endOfCapsule);
    if (capsule)
      owner.release();
    return capsule;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}
