#include "runtime/base/TextPart.h"

#include <charconv>

namespace knapper {

void TextPart::appendTo(std::string &message) const {
  char digits[24];
  auto append = [&](auto number) {
    message.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
  };
  switch (kind) {
  case Kind::text:
    message.append(text, size);
    break;
  case Kind::terminated:
    message += text;
    break;
  case Kind::integer:
    append(integer);
    break;
  case Kind::natural:
    append(natural);
    break;
  case Kind::real:
    message += std::to_string(real);
    break;
  }
}

std::string joined(const TextPart *parts, size_t count) {
  std::string message;
  for (size_t i = 0; i < count; ++i)
    parts[i].appendTo(message);
  return message;
}

} // namespace knapper
