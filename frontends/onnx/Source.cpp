#include "frontends/onnx/Source.h"
#include "runtime/base/Checked.h"
#include "runtime/base/InputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <filesystem>

using llvm::StringRef;

namespace knapper {
namespace {

//===----------------------------------------------------------------------===//
// Cutting large tensor data out of the message
//===----------------------------------------------------------------------===//

/// The messages on the way from a model to its tensors.
enum class Message { model, graph, function, node, attribute, tensor, other };

Message childOf(Message message, uint64_t field) {
  switch (message) {
  case Message::model:
    return field == 7    ? Message::graph
           : field == 25 ? Message::function
                         : Message::other;
  case Message::graph:
    return field == 1   ? Message::node
           : field == 5 ? Message::tensor
                        : Message::other;
  case Message::function:
    return field == 7    ? Message::node
           : field == 11 ? Message::attribute
                         : Message::other;
  case Message::node:
    return field == 5 ? Message::attribute : Message::other;
  case Message::attribute:
    return field == 5 || field == 10   ? Message::tensor
           : field == 6 || field == 11 ? Message::graph
                                       : Message::other;
  default:
    return Message::other;
  }
}

/// What exporters write for other tools and nothing here reads: a node's
/// documentation and stack traces (most of a file besides weights), shapes that
/// are inferred again.
bool isForOthers(Message message, uint64_t field) {
  return (message == Message::node && (field == 6 || field == 9)) ||
         (message == Message::graph && field == 13);
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Copies a message without what is for others, and raw_data above the inline
/// limit replaced by its place.
class Stripper {
public:
  explicit Stripper(StringRef file) : file(file) {}

  bool strip(uint64_t begin, uint64_t end, Message message, std::string &out,
             unsigned depth) {
    if (depth > 90) // protobuf itself stops at 100
      return stop("messages are nested too deeply", begin);
    bool cut = false;
    for (uint64_t at = begin; at < end;) {
      uint64_t start = at, tag = 0, length = 0;
      if (!varint(at, end, tag))
        return false;
      uint64_t field = tag >> 3;
      switch (tag & 7) {
      case 0:
        if (!varint(at, end, length))
          return false;
        length = 0;
        break;
      case 1:
        length = 8;
        break;
      case 2:
        if (!varint(at, end, length))
          return false;
        break;
      case 5:
        length = 4;
        break;
      default:
        return stop("is not an ONNX model (wire type " +
                        std::to_string(tag & 7) + ")",
                    start);
      }
      if (!inside(at, length, end))
        return stop("is cut short", start);
      uint64_t content = at;
      at += length;
      if (message == Message::tensor) {
        if (field == 20001 || field == 20002)
          continue;
        if (field == 9 && (tag & 7) == 2 && length > maxInlineBytes) {
          if (cut)
            return stop("a tensor has its raw_data twice", start);
          cut = true;
          appendVarint(out, 20001 << 3);
          appendVarint(out, content);
          appendVarint(out, 20002 << 3);
          appendVarint(out, length);
          continue;
        }
      }
      if ((tag & 7) == 2 && isForOthers(message, field))
        continue;
      Message child = (tag & 7) == 2 ? childOf(message, field) : Message::other;
      if (child == Message::other) {
        out.append(file.data() + start, at - start);
        continue;
      }
      std::string inner;
      if (!strip(content, at, child, inner, depth + 1))
        return false;
      appendVarint(out, tag);
      appendVarint(out, inner.size());
      out += inner;
    }
    return true;
  }

  std::string problem;
  uint64_t where = 0;

private:
  bool stop(std::string text, uint64_t at) {
    problem = std::move(text);
    where = at;
    return false;
  }

  bool varint(uint64_t &at, uint64_t end, uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at >= end)
        return stop("is cut short", at);
      auto byte = static_cast<uint8_t>(file[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return stop("is not an ONNX model (a number does not end)", at);
  }

  StringRef file;
};

Error readError(StringRef path, std::error_code code) {
  if (code == std::errc::not_enough_memory)
    return deviceError("cannot be read: " + code.message(), path.str(),
                       "free memory");
  return userError("cannot be read: " + code.message(), path.str(),
                   "check the path and its permissions");
}

/// What people take for an ONNX model, told by bytes near its beginning.
struct OtherFormat {
  StringRef bytes;
  size_t at;
  const char *what, *hint;
};
constexpr const char *exportIt =
    "export the module to ONNX: torch.onnx.export(module, inputs, "
    "\"model.onnx\"); docs/export.md";
constexpr OtherFormat otherFormats[] = {
    {"KNAPPER", 0, "is a compiled artefact, not a model",
     "run it: knapper run, knapper.load"},
    {"PK\x03\x04", 0,
     "is a zip archive, as torch.save writes, not an ONNX model", exportIt},
    {"\x80\x02", 0, "is a pickle, as torch.save writes, not an ONNX model",
     exportIt},
    {"{\"", 8, "is a safetensors file: weights without a model",
     "export the model that they belong to (docs/export.md); language models "
     "run from their folder: knapper serve FOLDER"},
    {"GGUF", 0, "is a GGUF file: weights without a model",
     "take the model's folder of safetensors: knapper serve FOLDER"},
    {"TFL3", 4, "is a TensorFlow Lite model, not an ONNX model",
     "convert it with tf2onnx: python -m tf2onnx.convert --tflite FILE"},
    {"\x89HDF", 0, "is an HDF5 file, as Keras writes, not an ONNX model",
     "convert the model with tf2onnx"},
    {"<?xml", 0, "is XML, as OpenVINO's models, not an ONNX model",
     "give the ONNX file that it was converted from"},
    {"version https://git-lfs", 0,
     "is a pointer of Git LFS: the model itself is not here",
     "git lfs pull, or download the file again"},
};

/// The error of bytes that are no model; it says which other kind of file they
/// are, where that is seen.
Error noModel(StringRef bytes, const std::string &where, std::string what,
              const std::string &place, const char *hint) {
  for (const OtherFormat &format : otherFormats)
    if (bytes.substr(format.at).starts_with(format.bytes))
      return userError(format.what, where, format.hint);
  return userError(std::move(what), place, hint);
}

} // namespace

Expected<OnnxFile> OnnxFile::open(const OnnxSource &source) {
  OnnxFile file;
  std::string where = source.path.empty() ? "the model" : source.path;
  if (!source.path.empty()) {
    ASSIGN_OR_RETURN(InputFile opened, InputFile::open(source.path));
    auto buffer = llvm::MemoryBuffer::getOpenFile(
        opened.descriptor(), source.path, opened.bytes(),
        /*RequiresNullTerminator=*/false);
    if (!buffer)
      return readError(source.path, buffer.getError());
    file.maps.push_back(std::move(*buffer));
    file.bytes = file.maps[0]->getBuffer();
    file.folder = llvm::sys::path::parent_path(source.path).str();
    if (file.folder.empty())
      file.folder = ".";
  } else {
    file.maps.push_back(nullptr);
    file.bytes = StringRef(source.bytes.data(), source.bytes.size());
    file.folder = source.folder;
  }
  file.owned.push_back(nullptr);
  file.paths.push_back(source.path);

  std::string stripped;
  Stripper stripper(file.bytes);
  if (!stripper.strip(0, file.bytes.size(), Message::model, stripped, 0))
    return noModel(file.bytes, where, stripper.problem,
                   where + " at byte " + std::to_string(stripper.where),
                   "check the file with onnx.checker.check_model");
  file.proto = std::make_unique<onnx::ModelProto>();
  if (stripped.size() > INT32_MAX ||
      !file.proto->ParseFromArray(stripped.data(),
                                  static_cast<int>(stripped.size())))
    return noModel(file.bytes, where, "is not an ONNX model", where,
                   "check the file with onnx.checker.check_model");
  if (!file.proto->has_graph())
    return noModel(file.bytes, where, "holds no graph", where,
                   "export the model to ONNX again; this may be another kind "
                   "of file");
  return file;
}

Expected<uint32_t> OnnxFile::openExternal(StringRef location) {
  namespace fs = std::filesystem;
  if (auto it = external.find(location); it != external.end())
    return it->second;
  std::string where = "external data '" + location.str() + "'";
  if (folder.empty())
    return userError("a model in memory has no folder for external data", where,
                     "compile it from its path");
  fs::path relative(location.str());
  bool climbs =
      relative.is_absolute() || relative.empty() || location.contains('\0');
  for (const fs::path &part : relative)
    climbs |= part == "..";
  if (climbs)
    return userError("leaves the model's folder", where,
                     "keep external data beside the model, under a relative "
                     "path");
  std::error_code code;
  fs::path root = fs::canonical(folder, code);
  if (code)
    return readError(folder, code);
  fs::path path = fs::canonical(root / relative, code);
  if (code)
    return userError("cannot be read: " + code.message(), where,
                     "keep the file beside the model");
  auto [end, rest] =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  (void)rest;
  if (end != root.end())
    return userError("is a link that leaves the model's folder", where,
                     "copy the file beside the model");
  if (!fs::is_regular_file(path, code))
    return userError("is not a file", where, "keep the file beside the model");
  ASSIGN_OR_RETURN(InputFile opened, InputFile::open(path.string()));
  auto buffer = llvm::MemoryBuffer::getOpenFile(
      opened.descriptor(), path.string(), opened.bytes(),
      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return readError(path.string(), buffer.getError());
  auto index = static_cast<uint32_t>(paths.size());
  maps.push_back(std::move(*buffer));
  owned.push_back(nullptr);
  paths.push_back(path.string());
  external[location] = index;
  return index;
}

Expected<std::optional<OnnxFile::Region>>
OnnxFile::regionOf(const onnx::TensorProto &tensor, uint64_t expected) {
  std::string where = "tensor '" + tensor.name() + "'";
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) {
    if (!tensor.has_mapped_offset())
      return std::optional<Region>();
    if (tensor.mapped_bytes() != expected)
      return userError("holds " + std::to_string(tensor.mapped_bytes()) +
                           " bytes where its dims need " +
                           std::to_string(expected),
                       where, "export the model again");
    return std::optional<Region>(
        Region{0, tensor.mapped_offset(), expected,
               bytes.substr(tensor.mapped_offset(), expected)});
  }
  std::optional<std::string> location;
  uint64_t offset = 0, length = expected;
  for (const onnx::StringStringEntryProto &entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if ((entry.key() == "offset" &&
              StringRef(entry.value()).getAsInteger(10, offset)) ||
             (entry.key() == "length" &&
              StringRef(entry.value()).getAsInteger(10, length)))
      return userError("external data has " + entry.key() + " '" +
                           entry.value() + "', not a number",
                       where, "export the model again");
  }
  if (!location)
    return userError("external data names no file", where,
                     "export the model again");
  if (length != expected)
    return userError("external data has length " + std::to_string(length) +
                         " where its dims need " + std::to_string(expected),
                     where, "export the model again");
  ASSIGN_OR_RETURN(uint32_t file, openExternal(*location));
  StringRef data = maps[file]->getBuffer();
  if (!inside(offset, length, data.size()))
    return userError("bytes " + std::to_string(offset) + " to " +
                         std::to_string(offset) + "+" + std::to_string(length) +
                         " lie outside '" + *location + "' of " +
                         std::to_string(data.size()) + " bytes",
                     where, "check that the external data is complete");
  return std::optional<Region>(
      Region{file, offset, length, data.substr(offset, length)});
}

OnnxFile::Region OnnxFile::keep(std::string data) {
  auto index = static_cast<uint32_t>(paths.size());
  maps.push_back(nullptr);
  owned.push_back(std::make_shared<const std::string>(std::move(data)));
  paths.push_back("");
  const std::string &kept = *owned.back();
  return {index, 0, kept.size(), kept};
}

std::vector<ModelBuffers::Buffer> OnnxFile::takeBuffers() {
  std::vector<ModelBuffers::Buffer> buffers(paths.size());
  for (size_t i = 0; i < paths.size(); ++i)
    if (owned[i])
      buffers[i] = {*owned[i], owned[i]};
    else if (paths[i].empty())
      buffers[i] = {std::string_view(bytes.data(), bytes.size()), nullptr};
  return buffers;
}

} // namespace knapper
