#include "runtime/base/Checked.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "tools/knapper/Array.h"
#include "tools/knapper/Texts.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace knapper::cli {

int64_t elementCount(const int64_t *shape, size_t rank) {
  std::optional<int64_t> count = 1;
  for (size_t d = 0; d < rank && count; ++d)
    count = shape[d] < 0 ? std::nullopt : checkedMul(*count, shape[d]);
  return count.value_or(-1);
}

Expected<Array> Array::make(knapper_dtype dtype, std::vector<int64_t> shape,
                            const std::string &where) {
  int64_t count = elementCount(shape.data(), shape.size());
  std::optional<int64_t> bytes =
      count < 0 ? std::nullopt
                : checkedMul(count, int64_t(knapper_dtype_size(dtype)));
  if (!bytes || *bytes > INT64_MAX - 64)
    return userError("has more bytes than there can be", where,
                     "use smaller sizes");
  Array array;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.bytes = static_cast<size_t>(*bytes);
  array.data.reset(static_cast<std::byte *>(
      aligned_alloc(64, std::max<size_t>(64, alignUp(array.bytes, 64)))));
  if (!array.data)
    return deviceError(cat("no memory for ", array.bytes, " bytes"), where,
                       "use smaller sizes, or free memory");
  return array;
}

knapper_tensor Array::tensor() const {
  return {data.get(), bytes, dtype, static_cast<int32_t>(shape.size()),
          shape.data()};
}

Expected<std::string> readFile(const std::string &path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  return file.read();
}

namespace {

struct NpyType {
  const char *name; ///< without the byte order
  knapper_dtype dtype;
};
constexpr NpyType types[] = {{"f4", KNAPPER_F32},
                             {"f2", KNAPPER_F16},
                             {"V2", KNAPPER_BF16},
                             {"f8", KNAPPER_F64},
                             {"b1", KNAPPER_I1},
                             {"i1", KNAPPER_I8},
                             {"u1", KNAPPER_U8},
                             {"i2", KNAPPER_I16},
                             {"i4", KNAPPER_I32},
                             {"i8", KNAPPER_I64},
                             {"u2", KNAPPER_U16},
                             {"u4", KNAPPER_U32},
                             {"u8", KNAPPER_U64},
                             // Any storage type: NumPy has no names for them.
                             {"V1", anyStorageType},
                             {"f1", KNAPPER_F8E5M2}};

/// What stands after 'key': in the header's dictionary.
std::string_view member(std::string_view text, std::string_view key) {
  size_t at = text.find(cat("'", key, "':"));
  if (at == std::string_view::npos)
    return {};
  text.remove_prefix(at + key.size() + 3);
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  return text;
}

std::optional<std::vector<int64_t>> parseShape(std::string_view text) {
  std::vector<int64_t> shape;
  if (text.empty() || text.front() != '(')
    return std::nullopt;
  text.remove_prefix(1);
  while (true) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ','))
      text.remove_prefix(1);
    if (text.empty())
      return std::nullopt;
    if (text.front() == ')')
      return shape;
    int64_t size;
    auto [end, code] =
        std::from_chars(text.data(), text.data() + text.size(), size);
    if (code != std::errc() || size < 0 || shape.size() >= 64)
      return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(end - text.data());
  }
}

/// Column-major elements of `size` bytes into row-major ones.
void fromFortran(const char *from, const std::vector<int64_t> &shape,
                 size_t size, char *to) {
  size_t rank = shape.size();
  std::vector<int64_t> index(rank, 0), strides(rank, 1);
  for (size_t d = 1; d < rank; ++d)
    strides[d] = strides[d - 1] * shape[d - 1];
  int64_t count = elementCount(shape.data(), rank), source = 0;
  for (int64_t i = 0; i < count; ++i) {
    memcpy(to + i * size, from + source * size, size);
    for (size_t d = rank; d-- > 0;) {
      source += strides[d];
      if (++index[d] < shape[d])
        break;
      source -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Characters or bytes of each string of '<U7' or '|S7'.
std::optional<size_t> textWidth(std::string_view descr) {
  if (!descr.starts_with("<U") && !descr.starts_with("|S"))
    return std::nullopt;
  size_t width = 0;
  auto [end, code] =
      std::from_chars(descr.data() + 2, descr.data() + descr.size(), width);
  bool whole = code == std::errc() && end == descr.data() + descr.size();
  return whole && width < (1u << 30) ? std::optional(width) : std::nullopt;
}

} // namespace

Expected<Array> readNpy(std::string_view content, const std::string &where) {
  auto damaged = [&](const char *what) {
    return userError(what, where, "save it again with numpy.save");
  };
  if (content.size() < 12 || content.substr(0, 6) != "\x93NUMPY")
    return damaged("is not an .npy file");
  auto byte = [&](size_t i) { return uint32_t(uint8_t(content[i])); };
  uint32_t major = byte(6);
  size_t start = major == 1 ? 10 : 12, length = byte(8) | byte(9) << 8;
  if (major > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (major < 1 || major > 3 || !inside(start, length, content.size()))
    return damaged("has a header that is cut short or of an unknown version");
  std::string_view header = content.substr(start, length);
  content.remove_prefix(start + length);

  std::string_view descr = member(header, "descr");
  if (descr.size() < 2 || descr.front() != '\'')
    return userError("holds structured elements", where,
                     "save an array of numbers");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  const NpyType *type = nullptr;
  for (const NpyType &t : types)
    if (descr.size() > 1 && descr.substr(1) == t.name)
      type = &t;
  std::optional<size_t> width = textWidth(descr);
  if (!width &&
      (!type || (descr[0] == '>' && knapper_dtype_size(type->dtype) > 1)))
    return userError("holds elements of type '" + std::string(descr) + "'",
                     where,
                     "save float32, float16, float64, bool, integers of 8 to "
                     "64 bits in little-endian order, or texts "
                     "(a.astype(str))");
  std::optional<std::vector<int64_t>> shape =
      parseShape(member(header, "shape"));
  if (!shape)
    return damaged("has a header without a shape");
  int64_t count = elementCount(shape->data(), shape->size());
  bool wide = width && descr[1] == 'U';
  uint64_t size = !width ? knapper_dtype_size(type->dtype)
                  : wide ? *width * 4
                         : *width;
  if (count < 0 || (size == 0 && count > 0) ||
      (size > 0 && uint64_t(count) > content.size() / size))
    return damaged("is cut short");
  bool fortran = member(header, "fortran_order").starts_with("True");
  if (width) {
    std::string ordered(content.substr(0, uint64_t(count) * size));
    if (fortran)
      fromFortran(content.data(), *shape, size, ordered.data());
    return textArray(ordered, *width, wide, std::move(*shape), where);
  }
  Expected<Array> array = Array::make(type->dtype, std::move(*shape), where);
  if (!array)
    return array;
  if (fortran)
    fromFortran(content.data(), array->shape, size,
                reinterpret_cast<char *>(array->data.get()));
  else
    memcpy(array->data.get(), content.data(), array->bytes);
  return array;
}

Expected<NpyFile> NpyFile::make(const knapper_tensor &tensor,
                                const std::string &where) {
  NpyFile file;
  file.tensor = &tensor;
  const char *name = knapper_dtype_size(tensor.dtype) == 1 ? "V1" : "f4";
  for (const NpyType &t : types)
    if (t.dtype == tensor.dtype && t.dtype != anyStorageType &&
        t.dtype != KNAPPER_F8E5M2)
      name = t.name;
  const char *order =
      knapper_dtype_size(tensor.dtype) == 1 || name[0] == 'V' ? "|" : "<";
  std::string type = cat(order, name);
  if (tensor.dtype == KNAPPER_STRING) {
    ASSIGN_OR_RETURN(FixedTexts texts, fixedTexts(tensor, where));
    type = std::move(texts.type);
    file.converted = std::move(texts.elements);
  }
  std::string shape;
  for (int32_t d = 0; d < tensor.rank; ++d)
    shape += cat(tensor.shape[d], tensor.rank == 1 ? "," : "",
                 d + 1 < tensor.rank ? ", " : "");
  std::string dict =
      cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape,
          "), }");
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string &header = file.header;
  header.assign("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  header += dict;
  return file;
}

std::string_view NpyFile::elements() const {
  if (tensor->dtype == KNAPPER_STRING)
    return converted;
  return {static_cast<const char *>(tensor->data), tensor->bytes};
}

} // namespace knapper::cli
