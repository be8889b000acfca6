// What a message is assembled from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace knapper {

/// A part of a message as cat() hands it over.
class TextPart {
public:
  template <typename T> static TextPart of(const T &part) {
    TextPart made;
    if constexpr (std::is_floating_point_v<T>) {
      made.kind = Kind::real;
      made.real = part;
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      made.kind = Kind::integer;
      made.integer = part;
    } else if constexpr (std::is_integral_v<T>) {
      made.kind = Kind::natural;
      made.natural = part;
    } else if constexpr (std::is_convertible_v<const T &, const char *>) {
      made.kind = Kind::terminated;
      made.text = part;
    } else {
      std::string_view view(part);
      made.kind = Kind::text;
      made.text = view.data();
      made.size = view.size();
    }
    return made;
  }
  void appendTo(std::string &message) const;

private:
  enum class Kind : uint8_t { text, terminated, integer, natural, real };
  Kind kind;
  union {
    const char *text;
    int64_t integer;
    uint64_t natural;
    double real;
  };
  size_t size; // of Kind::text
};

/// The parts one after the other.
std::string joined(const TextPart *parts, size_t count);

} // namespace knapper
