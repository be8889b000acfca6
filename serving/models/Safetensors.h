// Files of tensors in the safetensors format: 8 bytes with the length of a JSON
// header, the header, the data. Nothing in a file is trusted.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// One tensor: dense, row-major, little endian.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< from the beginning of the file
  uint64_t bytes = 0;
};

/// The directory of one file. Immutable.
class Safetensors {
public:
  /// Reads and checks the header; the data stays where it is. UserError for
  /// what is no such file: a header that is too long or no JSON, names given
  /// twice, ranges that overlap, leave holes, end past the file or have another
  /// size than shape and dtype say, and dtypes that no model here has.
  static Expected<Safetensors> open(const std::string &path);

  const std::string &path() const { return file; }
  const std::map<std::string, StoredTensor> &tensors() const { return all; }

private:
  std::string file;
  std::map<std::string, StoredTensor> all;
};

/// The tensors of a header. `dataBegin`: where in the file offset 0 of the data
/// is; `dataBytes`: how many there are; `where`: the file, for messages.
Expected<std::map<std::string, StoredTensor>>
parseSafetensorsHeader(std::string_view json, uint64_t dataBegin,
                       uint64_t dataBytes, const std::string &where);

} // namespace knapper::serving
