//===- Array.h - Arrays in memory and in .npy and .npz files --------------===//
#pragma once

#include "knapper/knapper.h"
#include "runtime/base/Error.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace knapper::cli {

/// A dense row-major array; its memory begins at a multiple of 64 bytes.
struct Array {
  knapper_dtype dtype = KNAPPER_F32;
  std::vector<int64_t> shape;
  size_t bytes = 0;
  struct Free {
    void operator()(void *memory) const { free(memory); }
  };
  std::unique_ptr<std::byte, Free> data;
  std::vector<char> characters; ///< of strings, to which `data` points

  /// Not filled. UserError when the size overflows, DeviceError without memory.
  static Expected<Array> make(knapper_dtype dtype, std::vector<int64_t> shape,
                              const std::string &where);
  knapper_tensor tensor() const;
};

/// Elements of a shape; -1 on overflow or a negative size.
int64_t elementCount(const int64_t *shape, size_t rank);

/// A whole file. UserError naming it.
Expected<std::string> readFile(const std::string &path);

/// What an array of one-byte void elements has for its dtype: NumPy stores
/// every storage type so. What it is for says which one it is.
inline constexpr knapper_dtype anyStorageType = KNAPPER_F8E4M3FN;

/// The content of an .npy file. Two-byte void elements (how NumPy stores
/// bfloat16) are bf16, texts and bytes strings. `where` names it in errors.
Expected<Array> readNpy(std::string_view content, const std::string &where);

/// The same as bytes; bf16 becomes two-byte void, storage types one-byte void,
/// strings texts of one width.
struct NpyFile {
  std::string header;
  std::string_view elements() const;

  /// Of a tensor that outlives it. UserError where strings would take more
  /// than 4 GiB so; `where` names the file.
  static Expected<NpyFile> make(const knapper_tensor &tensor,
                                const std::string &where);

private:
  const knapper_tensor *tensor = nullptr;
  std::string converted; // strings
};

/// The arrays of an .npz file, by name, stored or deflated.
Expected<std::vector<std::pair<std::string, Array>>>
readNpz(std::string_view content, const std::string &where);

using NamedTensor = std::pair<std::string, knapper_tensor>;
/// Writes atomically, by a temporary file.
Status writeNpy(const std::string &path, const knapper_tensor &tensor);
Status writeNpz(const std::string &path,
                const std::vector<NamedTensor> &tensors);

} // namespace knapper::cli
