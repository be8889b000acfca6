#include "serving/models/Safetensors.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unistd.h>

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

// As long as the format's own library takes.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kMostDims = 8;
constexpr int kDeepest = 4; // brackets of a valid header

std::optional<DType> dtypeOf(std::string_view name) {
  struct Row {
    std::string_view name;
    DType dtype;
  };
  constexpr Row rows[] = {
      {"F32", DType::f32},
      {"F16", DType::f16},
      {"BF16", DType::bf16},
      {"F64", DType::f64},
      {"F8_E4M3", DType::f8e4m3fn},
      {"F8_E5M2", DType::f8e5m2},
      {"I8", DType::i8},
      {"U8", DType::u8},
      {"I16", DType::i16},
      {"U16", DType::u16},
      {"I32", DType::i32},
      {"U32", DType::u32},
      {"I64", DType::i64},
      {"U64", DType::u64},
      {"BOOL", DType::i1},
  };
  for (const Row &row : rows)
    if (row.name == name)
      return row.dtype;
  return std::nullopt;
}

Error broken(const std::string &where, std::string what) {
  return userError(std::move(what), where, "copy or download the file again");
}

/// A number that is whole and not negative.
std::optional<uint64_t> wholeNumber(const Json &json) {
  if (!json.is_number_unsigned())
    return std::nullopt;
  return json.get<uint64_t>();
}

Expected<StoredTensor> tensorOf(const Json &entry, const std::string &where) {
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    return broken(where, "has no dtype, shape and two data_offsets");
  StoredTensor tensor;
  const auto &dtype = entry["dtype"].get_ref<const std::string &>();
  std::optional<DType> known = dtypeOf(dtype);
  if (!known)
    return userError(cat("has the dtype '", dtype, "'"), where,
                     "float32, bfloat16 or float16 weights");
  tensor.dtype = *known;
  if (entry["shape"].size() > kMostDims)
    return broken(where, cat("has ", entry["shape"].size(), " dims"));
  uint64_t bytes = byteSize(*known);
  for (const Json &dim : entry["shape"]) {
    std::optional<uint64_t> size = wholeNumber(dim);
    if (!size || *size > uint64_t(INT64_MAX) ||
        __builtin_mul_overflow(bytes, *size, &bytes))
      return broken(where, "has a shape that is too large");
    tensor.shape.push_back(static_cast<int64_t>(*size));
  }
  std::optional<uint64_t> begin = wholeNumber(entry["data_offsets"][0]),
                          end = wholeNumber(entry["data_offsets"][1]);
  if (!begin || !end || *end < *begin)
    return broken(where, "has data_offsets that are no range");
  if (*end - *begin != bytes)
    return broken(where, cat("has ", *end - *begin, " bytes, but ", bytes,
                             " by its shape and dtype"));
  tensor.offset = *begin;
  tensor.bytes = bytes;
  return tensor;
}

} // namespace

Expected<std::map<std::string, StoredTensor>>
parseSafetensorsHeader(std::string_view text, uint64_t dataBegin,
                       uint64_t dataBytes, const std::string &where) {
  std::set<std::string> names;
  std::string twice;
  bool deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t event, Json &parsed) {
        deep |= depth > kDeepest;
        if (event == Json::parse_event_t::key && depth == 1 &&
            !names.insert(parsed.get<std::string>()).second)
          twice = parsed.get<std::string>();
        return depth <= kDeepest;
      },
      /*allow_exceptions=*/false);
  if (!json.is_object() || deep)
    return broken(where, "its header is no JSON object of tensors");
  if (!twice.empty())
    return broken(where, cat("has two tensors '", twice, "'"));
  std::map<std::string, StoredTensor> tensors;
  std::vector<std::pair<uint64_t, const std::string *>> order;
  for (const auto &[name, entry] : json.items()) {
    if (name == "__metadata__")
      continue;
    ASSIGN_OR_RETURN(StoredTensor tensor,
                     tensorOf(entry, cat(where, ", tensor '", name, "'")));
    auto it = tensors.emplace(name, std::move(tensor)).first;
    order.emplace_back(it->second.offset, &it->first);
  }
  // In order of their places they must follow one another. An empty one lies
  // where another begins, so it comes first.
  std::sort(order.begin(), order.end(), [&](const auto &a, const auto &b) {
    return std::pair(a.first, tensors[*a.second].bytes) <
           std::pair(b.first, tensors[*b.second].bytes);
  });
  uint64_t at = 0;
  for (auto [begin, name] : order) {
    StoredTensor &tensor = tensors[*name];
    if (begin != at)
      return broken(cat(where, ", tensor '", *name, "'"),
                    begin < at ? "overlaps another tensor"
                               : cat("leaves a hole of ", begin - at,
                                     " bytes before it"));
    if (tensor.bytes > dataBytes - at)
      return broken(cat(where, ", tensor '", *name, "'"),
                    "ends past the end of the file");
    at += tensor.bytes;
    tensor.offset += dataBegin;
  }
  if (at != dataBytes)
    return broken(
        where, cat("has ", dataBytes - at, " bytes that belong to no tensor"));
  return tensors;
}

Expected<Safetensors> Safetensors::open(const std::string &path) {
  static_assert(std::endian::native == std::endian::little);
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  uint64_t length = 0;
  if (file.bytes() < sizeof length ||
      pread(file.descriptor(), &length, sizeof length, 0) != sizeof length)
    return broken(path, "is too short for a safetensors file");
  if (length > kLongestHeader)
    return broken(path, cat("has a header of ", length, " bytes, more than ",
                            kLongestHeader));
  if (length > file.bytes() - sizeof length)
    return broken(path, "ends inside its header");
  std::string header(length, '\0');
  for (uint64_t done = 0; done < length;) {
    ssize_t got = pread(file.descriptor(), header.data() + done, length - done,
                        static_cast<off_t>(sizeof length + done));
    if (got <= 0)
      return deviceError("cannot be read", path, "check the disk");
    done += static_cast<uint64_t>(got);
  }
  uint64_t begin = sizeof length + length;
  Safetensors result;
  result.file = path;
  ASSIGN_OR_RETURN(result.all, parseSafetensorsHeader(
                                   header, begin, file.bytes() - begin, path));
  return result;
}

} // namespace knapper::serving
