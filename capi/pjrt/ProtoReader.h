//===- ProtoReader.h - The fields of a protobuf message, one by one -------===//
//
// https://protobuf.dev/programming-guides/encoding. Bytes come from a caller
// and are not trusted: nothing outside of them is read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace knapper::pjrt {

/// Reads the fields of a message in their order. Views the bytes.
class ProtoReader {
public:
  explicit ProtoReader(std::string_view message) : left(message) {}

  /// The next field; false at the end and where the bytes are damaged.
  bool next() {
    if (left.empty() || bad)
      return false;
    uint64_t tag = varint();
    field = tag >> 3;
    kind = tag & 7;
    value = 0;
    bytes = {};
    switch (kind) {
    case 0:
      value = varint();
      break;
    case 1:
      fixed(8);
      break;
    case 2:
      bytes = take(varint());
      break;
    case 5:
      fixed(4);
      break;
    default: // groups are of no message that we read
      bad = true;
    }
    bad |= field == 0 || field > kMaxField;
    return !bad;
  }

  /// One number of a packed list; false as `next`.
  bool nextPacked() {
    if (left.empty() || bad)
      return false;
    value = varint();
    return !bad;
  }

  bool damaged() const { return bad; }
  /// Whether `bytes` are UTF-8, as a message's texts must be, without zeros.
  bool isText() const {
    for (size_t i = 0; i < bytes.size();) {
      auto first = static_cast<uint8_t>(bytes[i]);
      int length = std::countl_one(first);
      if (first == 0 || length == 1 || length > 4)
        return false;
      size_t end = i + static_cast<size_t>(length ? length : 1);
      if (end > bytes.size())
        return false;
      while (++i < end)
        if ((static_cast<uint8_t>(bytes[i]) & 0xc0) != 0x80)
          return false;
    }
    return true;
  }
  bool isNumber() const { return kind == 0; }
  bool isDouble() const { return kind == 1; }
  bool isBytes() const { return kind == 2; }

  uint64_t field = 0;
  uint64_t value = 0;     ///< of a number; of a double its bits
  std::string_view bytes; ///< of a text, a message or a packed list

private:
  static constexpr uint64_t kMaxField = (1 << 29) - 1;

  uint64_t varint() {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && !left.empty(); shift += 7) {
      auto byte = static_cast<uint8_t>(left.front());
      left.remove_prefix(1);
      result |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80)
        return result;
    }
    bad = true;
    return 0;
  }

  std::string_view take(uint64_t size) {
    if (bad || size > left.size()) {
      bad = true;
      return {};
    }
    std::string_view result = left.substr(0, size);
    left.remove_prefix(size);
    return result;
  }

  void fixed(size_t size) {
    static_assert(std::endian::native == std::endian::little);
    std::string_view raw = take(size);
    memcpy(&value, raw.data(), raw.size());
  }

  std::string_view left;
  uint64_t kind = 0;
  bool bad = false;
};

} // namespace knapper::pjrt
