//===- ConstantFiles.h - The files behind ts.weight, mapped once ----------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Error.h"
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace knapper {

/// The entries of a module's `ts.files`, mapped read-only when opened. Cheap to
/// copy; the mapping lives as long as a copy or data that shares it. Reading is
/// safe from any number of threads. A file that another process shortens while
/// it is mapped ends this process (SIGBUS), as with any mapped file.
class ConstantFiles {
public:
  /// No files: every reference is an error.
  ConstantFiles() = default;

  /// Maps every file. `buffers[i]` is the data of entry i where the entry's
  /// path is empty (a model in memory); the caller keeps it alive.
  /// UserError when a file cannot be read.
  static Expected<ConstantFiles>
  open(mlir::ModuleOp module, llvm::ArrayRef<std::string_view> buffers = {});

  /// The bytes of a reference, checked against the file's size. UserError,
  /// naming file and offset, when they do not lie inside.
  Expected<std::span<const std::byte>> data(ts::WeightAttr reference) const;

  /// Keeps the mapping alive.
  std::shared_ptr<const void> owner() const { return files; }

private:
  struct File {
    std::string path;
    const std::byte *data = nullptr;
    size_t bytes = 0;
    bool mapped = false;
  };
  struct Files {
    std::vector<File> entries;
    ~Files();
  };
  std::shared_ptr<Files> files;
};

} // namespace knapper
