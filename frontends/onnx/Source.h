//===- Source.h - Reading an ONNX file without copying its weights --------===//
//
// The file is mapped. Large raw tensor data is cut out of the message before it
// is parsed and leaves its place in the file (`mapped_offset`, `mapped_bytes`),
// so that a model of any size parses in the time of its graph.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/ImportOnnx.h"
#include "frontends/onnx/onnx.pb.h"
#include "runtime/base/Error.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

namespace knapper {

/// Tensor data of at most this many bytes becomes part of the IR.
inline constexpr uint64_t maxInlineBytes = 64 << 10;

/// A parsed model and the files that its tensors refer to.
class OnnxFile {
public:
  static Expected<OnnxFile> open(const OnnxSource &source);

  const onnx::ModelProto &model() const { return *proto; }
  /// Bytes of the serialised model.
  uint64_t size() const { return bytes.size(); }
  /// The serialised model itself.
  llvm::StringRef contents() const { return bytes; }

  struct Region {
    uint32_t file; ///< index into `files()`
    uint64_t offset, bytes;
    llvm::StringRef data; ///< the mapped bytes
  };
  /// Where the data of `tensor`, `bytes` long by its dims, lies outside the
  /// message: in the mapped model or in an external file. Checks paths and
  /// offsets. Nothing when the data is part of the message.
  Expected<std::optional<Region>> regionOf(const onnx::TensorProto &tensor,
                                           uint64_t bytes);

  /// Paths of all files met so far; "" for data in memory. 0 is the model.
  const std::vector<std::string> &files() const { return paths; }
  /// Keeps data that has no place in a file; its region's `data` stays valid.
  Region keep(std::string data);
  /// Hands over data in memory, by file index.
  std::vector<ModelBuffers::Buffer> takeBuffers();

private:
  Expected<uint32_t> openExternal(llvm::StringRef location);

  std::unique_ptr<onnx::ModelProto> proto;
  std::string folder; ///< of external data; empty: none allowed
  llvm::StringRef bytes;
  std::vector<std::string> paths;
  std::vector<std::shared_ptr<llvm::MemoryBuffer>> maps; ///< by file
  std::vector<std::shared_ptr<const std::string>> owned; ///< by file
  llvm::StringMap<uint32_t> external;
};

} // namespace knapper
