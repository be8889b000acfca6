// oneDNN as far as we call it: opened where it lies, declared here, so that no
// header of it is needed. Its ABI is that of major version 3.
#pragma once

#include "runtime/base/Vendor.h"
#include "runtime/device/OpenVendor.h"

#include <memory>
#include <string>

namespace knapper::cpu {

/// Threads: any, all at once. Its primitives run on the thread that executes
/// them and no other: the workers of a run share a matmul, not oneDNN's own.
class OneDnn {
public:
  using Engine = struct EngineOf *;
  using Stream = struct StreamOf *;
  using Desc = const struct DescOf *; // of memory
  using Attributes = struct AttributesOf *;
  using PostOps = struct PostOpsOf *;
  using PrimitiveDesc = struct PrimitiveDescOf *;
  using Primitive = struct PrimitiveOf *;
  using Memory = struct MemoryOf *;
  struct Argument {
    int which;
    Memory memory;
  };

  /// A DeviceError where it does not lie, is of another major version, or was
  /// built with threads that we cannot hold back.
  static Expected<std::shared_ptr<const OneDnn>> open();
  ~OneDnn();
  OneDnn(const OneDnn &) = delete;

  /// "oneDNN 3.2.0 (OpenMP), /usr/lib/libdnnl.so.3"
  const std::string &text() const { return said; }
  Engine engine = nullptr;

#define ONEDNN_SYMBOL(member, name, parameters) int(*member) parameters;
#include "runtime/drivers/cpu/OneDnnSymbols.def"
#undef ONEDNN_SYMBOL
  size_t (*descBytes)(Desc) = nullptr;

  /// Lets the calling thread's primitives use no other thread for a scope.
  class Alone {
  public:
    explicit Alone(const OneDnn &library) : library(library) {
      if (library.setThreads) {
        before = library.maxThreads();
        library.setThreads(1);
      }
    }
    ~Alone() {
      if (library.setThreads)
        library.setThreads(before);
    }
    Alone(const Alone &) = delete;

  private:
    const OneDnn &library;
    int before = 1;
  };

private:
  OneDnn() = default;
  VendorFile file;
  std::string said;
  // Of its OpenMP, each for the calling thread alone; null: it has none.
  void (*setThreads)(int) = nullptr;
  int (*maxThreads)() = nullptr;
};

} // namespace knapper::cpu
