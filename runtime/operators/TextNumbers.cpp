#include "runtime/operators/TextNumbers.h"
#include "runtime/base/Text.h"
#include "runtime/operators/TextWriter.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <locale.h>

namespace knapper {
namespace {

/// The program may have set a locale that writes commas.
locale_t plainLocale() {
  static locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  return plain;
}

bool isSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string trimmed(std::string_view text) {
  while (!text.empty() && isSpace(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isSpace(text.back()))
    text.remove_suffix(1);
  return std::string(text);
}

/// Whether all of the text is a number of type T, which goes to `to`.
template <typename T> bool parse(const std::string &text, T &to) {
  if (text.empty() || text.find('\0') != std::string::npos)
    return false;
  char *end = nullptr;
  errno = 0;
  if constexpr (std::is_same_v<T, float>) {
    to = strtof_l(text.c_str(), &end, plainLocale());
    errno = 0; // far numbers are infinite, small ones 0
  } else if constexpr (std::is_same_v<T, double>) {
    to = strtod_l(text.c_str(), &end, plainLocale());
    errno = 0;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    to = strtoll(text.c_str(), &end, 10);
  } else {
    to = strtoull(text.c_str(), &end, 10);
    if (text[0] == '-') // which it would take
      return false;
  }
  return *end == '\0' && errno == 0;
}

template <typename T> int parseAll(const knapper_call *call) {
  std::span<const knapper_string> x = textsOf(call->inputs[0]);
  auto *y = static_cast<T *>(call->outputs[0].data);
  for (size_t i = 0; i < x.size(); ++i)
    if (!parse(trimmed(view(x[i])), y[i]))
      return failCall(call, cat("string ", i, ", '",
                                std::string(view(x[i])).substr(0, 64),
                                "', is no number of this type"));
  return 0;
}

/// Digits and exponent of "d.ddde+xx" with the fewest digits that read back.
template <typename T> std::string shortest(T value) {
  char text[40] = {};
  locale_t before = uselocale(plainLocale());
  constexpr int most = std::is_same_v<T, float> ? 9 : 17;
  for (int digits = 1; digits <= most; ++digits) {
    snprintf(text, sizeof text, "%.*e", digits - 1, static_cast<double>(value));
    T back;
    if (parse(std::string(text), back) && back == value)
      break;
  }
  uselocale(before);
  return text;
}

template <typename T> std::string format(T value) {
  if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    if (std::isnan(value))
      return "NaN";
    if (std::isinf(value))
      return value < 0 ? "-INF" : "INF";
    std::string text = shortest(value);
    size_t at = text.find('e');
    int exponent = atoi(text.c_str() + at + 1);
    if (exponent < -4 || exponent >= 16)
      return text;
    bool negative = text[0] == '-';
    std::string digits;
    for (char c : text.substr(0, at))
      if (c >= '0' && c <= '9')
        digits += c;
    if (exponent < 0)
      digits.insert(0, -exponent, '0');
    size_t whole = exponent < 0 ? 1 : exponent + 1;
    if (digits.size() < whole + 1)
      digits.append(whole + 1 - digits.size(), '0');
    digits.insert(whole, ".");
    return (negative ? "-" : "") + digits;
  }
}

template <typename T> int formatAll(const knapper_call *call) {
  auto *x = static_cast<const T *>(call->inputs[0].data);
  TextWriter writer;
  for (size_t i = 0; i < call->inputs[0].bytes / sizeof(T); ++i)
    writer.add(format(x[i]));
  return writer.finish(call, 0);
}

} // namespace

int parsedShape(void *, const knapper_call *call,
                knapper_result_shape *results) {
  const knapper_tensor &x = call->inputs[0];
  results[0] = {
      static_cast<knapper_dtype>(integerAttribute(call, "type", KNAPPER_F32)),
      x.rank,
      {}};
  for (int32_t d = 0; d < x.rank; ++d)
    results[0].shape[d] = x.shape[d];
  return 0;
}

int parseNumbers(void *, const knapper_call *call) {
  switch (call->outputs[0].dtype) {
  case KNAPPER_F32:
    return parseAll<float>(call);
  case KNAPPER_F64:
    return parseAll<double>(call);
  case KNAPPER_I64:
    return parseAll<int64_t>(call);
  case KNAPPER_U64:
    return parseAll<uint64_t>(call);
  default:
    return failCall(call, "strings become f32, f64, i64 or u64");
  }
}

int formatNumbers(void *, const knapper_call *call) {
  switch (call->inputs[0].dtype) {
  case KNAPPER_F32:
    return formatAll<float>(call);
  case KNAPPER_F64:
    return formatAll<double>(call);
  case KNAPPER_I64:
    return formatAll<int64_t>(call);
  case KNAPPER_U64:
    return formatAll<uint64_t>(call);
  default:
    return failCall(call, "strings are made of f32, f64, i64 or u64");
  }
}

} // namespace knapper
