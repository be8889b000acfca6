#include "serving/chat/FormatText.h"

#include "serving/chat/PythonText.h"
#include "serving/chat/TemplateBudget.h"
#include "serving/tokenizer/Utf8.h"

#include <cmath>
#include <stdexcept>
#include <utf8proc.h>

namespace knapper::serving {
namespace {

using jinja::value;

[[noreturn]] void refuse(const std::string &why) {
  throw std::runtime_error("format: " + why);
}

/// "%(key)-08.3f", after the "%".
struct FormatConversion {
  std::string key;
  bool hasKey = false, left = false, zero = false, plus = false, space = false,
       other = false;
  int width = 0, precision = -1;
  char kind = 0;
};

class Formatter {
public:
  Formatter(std::span<const value> values,
            std::span<const std::pair<std::string, value>> names)
      : values(values), names(names) {}

  jinja::string run(const jinja::string &format);

private:
  FormatConversion readConversion(std::string_view text, size_t &at);
  /// `what`: "a width", "a precision".
  int readNumber(std::string_view text, size_t &at, const char *what);
  const value &next();
  const value &valueOf(const FormatConversion &conversion);
  jinja::string convert(const FormatConversion &conversion);
  static std::string number(const FormatConversion &conversion,
                            const value &given);
  static std::string integer(const FormatConversion &conversion,
                             const value &given);

  std::span<const value> values;
  std::span<const std::pair<std::string, value>> names;
  size_t used = 0;
};

const value &Formatter::next() {
  if (used == values.size())
    refuse("not enough arguments");
  return values[used++];
}

int Formatter::readNumber(std::string_view text, size_t &at, const char *what) {
  if (at < text.size() && text[at] == '*') {
    ++at;
    const value &given = next();
    if (!jinja::is_val<jinja::value_int>(given))
      refuse("* wants an integer");
    return TemplateBudget::width(given->as_int(), what);
  }
  int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    number = std::min<int64_t>(number * 10 + (text[at] - '0'), INT32_MAX);
  return TemplateBudget::width(number, what);
}

FormatConversion Formatter::readConversion(std::string_view text, size_t &at) {
  FormatConversion made;
  if (at < text.size() && text[at] == '(') {
    size_t end = text.find(')', at);
    if (end == std::string_view::npos)
      refuse("a key has no end");
    made.key = text.substr(at + 1, end - at - 1);
    made.hasKey = true;
    at = end + 1;
  }
  for (; at < text.size(); ++at) {
    char flag = text[at];
    if (flag == '-')
      made.left = true;
    else if (flag == '0')
      made.zero = true;
    else if (flag == '+')
      made.plus = true;
    else if (flag == ' ')
      made.space = true;
    else if (flag == '#')
      made.other = true;
    else
      break;
  }
  made.width = readNumber(text, at, "format: a width");
  if (at < text.size() && text[at] == '.')
    made.precision = readNumber(text, ++at, "format: a precision");
  while (at < text.size() &&
         std::string_view("hlL").find(text[at]) != std::string_view::npos)
    ++at;
  if (at == text.size())
    refuse("it ends in a conversion");
  made.kind = text[at++];
  return made;
}

const value &Formatter::valueOf(const FormatConversion &conversion) {
  if (!conversion.hasKey)
    return next();
  for (const auto &[name, named] : names)
    if (name == conversion.key)
      return named;
  refuse("there is no '" + conversion.key + "'");
}

bool isNumber(const value &given) {
  return jinja::is_val<jinja::value_int>(given) ||
         jinja::is_val<jinja::value_float>(given) ||
         jinja::is_val<jinja::value_bool>(given);
}

double numberOf(const value &given) {
  if (jinja::is_val<jinja::value_bool>(given))
    return given->as_bool();
  return jinja::is_val<jinja::value_int>(given)
             ? static_cast<double>(given->as_int())
             : given->as_float();
}

std::string Formatter::integer(const FormatConversion &conversion,
                               const value &given) {
  bool isFloat = jinja::is_val<jinja::value_float>(given);
  bool decimal =
      std::string_view("diu").find(conversion.kind) != std::string_view::npos;
  if (!isNumber(given) || (isFloat && !decimal))
    refuse(std::string("%") + conversion.kind + " wants a number, and got " +
           given->type());
  int64_t whole = 0;
  if (jinja::is_val<jinja::value_int>(given)) {
    whole = given->as_int();
  } else {
    double number = std::trunc(numberOf(given));
    if (!(std::abs(number) < 9.2e18))
      refuse("a number is too large");
    whole = static_cast<int64_t>(number);
  }
  uint64_t rest = whole < 0 ? 0 - static_cast<uint64_t>(whole)
                            : static_cast<uint64_t>(whole);
  unsigned base = decimal ? 10 : conversion.kind == 'o' ? 8 : 16;
  const char *digits =
      conversion.kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string made;
  do
    made.insert(made.begin(), digits[rest % base]);
  while (rest /= base);
  while (static_cast<int>(made.size()) < conversion.precision)
    made.insert(made.begin(), '0');
  std::string sign = whole < 0          ? "-"
                     : conversion.plus  ? "+"
                     : conversion.space ? " "
                                        : "";
  if (conversion.other && base != 10)
    sign += base == 8 ? "0o" : conversion.kind == 'X' ? "0X" : "0x";
  while (conversion.zero && !conversion.left &&
         static_cast<int>(sign.size() + made.size()) < conversion.width)
    made.insert(made.begin(), '0');
  return sign + made;
}

std::string Formatter::number(const FormatConversion &conversion,
                              const value &given) {
  if (!isNumber(given))
    refuse(std::string("%") + conversion.kind + " wants a number, and got " +
           given->type());
  double number = numberOf(given);
  std::string form = "%";
  for (auto [set, flag] :
       {std::pair(conversion.left, '-'),
        std::pair(conversion.zero && std::isfinite(number), '0'),
        std::pair(conversion.plus, '+'), std::pair(conversion.space, ' '),
        std::pair(conversion.other, '#')})
    if (set)
      form += flag;
  form += "*.*";
  form += conversion.kind;
  int precision = conversion.precision < 0 ? 6 : conversion.precision;
  // Both are at most 64, and no finite number has more than 309 digits.
  char text[512];
  snprintf(text, sizeof(text), form.c_str(), conversion.width, precision,
           number);
  return text;
}

/// Its first characters.
jinja::string cut(const jinja::string &text, int characters) {
  jinja::string made;
  for (const jinja::string_part &part : text.parts) {
    size_t at = 0;
    for (; at < part.val.size() && characters > 0; --characters)
      at = std::min(part.val.size(), at + utf8Length(part.val[at]));
    if (at > 0)
      made.parts.push_back({part.is_input, part.val.substr(0, at)});
  }
  return made;
}

int charactersOf(const jinja::string &text) {
  int count = 0;
  for (const jinja::string_part &part : text.parts)
    for (char c : part.val)
      count += (c & 0xc0) != 0x80;
  return count;
}

jinja::string Formatter::convert(const FormatConversion &conversion) {
  const value &given = valueOf(conversion);
  jinja::string made;
  switch (conversion.kind) {
  case 's':
    if (!given->is_undefined())
      made = given->as_string();
    break;
  case 'r':
    made = jinja::string(jinja::value_to_string_repr(given), true);
    break;
  case 'c':
    if (jinja::is_val<jinja::value_int>(given) && given->as_int() >= 0 &&
        given->as_int() < 0x110000 && (given->as_int() & ~0x7ff) != 0xd800) {
      std::string text;
      appendUtf8(text, static_cast<char32_t>(given->as_int()));
      made = text;
    } else if (jinja::is_val<jinja::value_string>(given) &&
               charactersOf(given->as_string()) == 1) {
      made = given->as_string();
    } else {
      refuse("%c wants a character");
    }
    break;
  case 'd':
  case 'i':
  case 'u':
  case 'o':
  case 'x':
  case 'X':
    made = integer(conversion, given);
    break;
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    made = number(conversion, given);
    break;
  default:
    refuse(std::string("the conversion %") + conversion.kind +
           " is not supported");
  }
  bool isText =
      std::string_view("sr").find(conversion.kind) != std::string_view::npos;
  if (isText && conversion.precision >= 0)
    made = cut(made, conversion.precision);
  int missing = conversion.width - charactersOf(made);
  if (missing <= 0)
    return made;
  jinja::string spaces(std::string(static_cast<size_t>(missing), ' '));
  jinja::string padded = conversion.left ? made : spaces;
  padded.append(conversion.left ? spaces : made);
  return padded;
}

jinja::string Formatter::run(const jinja::string &format) {
  if (format.safe)
    refuse("a text that is marked as safe is not supported");
  jinja::string made;
  for (const jinja::string_part &part : format.parts) {
    std::string_view text = part.val;
    for (size_t at = 0; at < text.size();) {
      size_t sign = std::min(text.find('%', at), text.size());
      if (sign > at)
        made.append(jinja::string(std::string(text.substr(at, sign - at)),
                                  part.is_input));
      at = sign + 1;
      if (sign == text.size())
        break;
      jinja::string more;
      if (at < text.size() && text[at] == '%') {
        ++at;
        more = jinja::string(std::string("%"), part.is_input);
      } else {
        more = convert(readConversion(text, at));
      }
      TemplateBudget::charge(more.length() + 64 * (more.parts.size() + 1));
      made.append(more);
    }
  }
  if (used < values.size())
    refuse("not all arguments are used");
  return made;
}

bool isLetterOfCase(char32_t code) {
  utf8proc_category_t kind =
      utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT;
}

/// The one letter that is often met whose upper case is two.
constexpr char32_t sharpS = 0xdf;

} // namespace

jinja::string formatted(const jinja::string &format,
                        std::span<const value> values,
                        std::span<const std::pair<std::string, value>> names) {
  return Formatter(values, names).run(format);
}

jinja::string formatted(const jinja::string &format, const value &values) {
  if (jinja::is_val<jinja::value_tuple>(values))
    return formatted(format, values->as_array(), {});
  if (!jinja::is_val<jinja::value_object>(values))
    return formatted(format, std::span(&values, 1), {});
  std::vector<std::pair<std::string, value>> names;
  for (const auto &[key, named] : values->as_ordered_object())
    names.emplace_back(key->as_string().str(), named);
  return formatted(format, {}, names);
}

jinja::string inCase(jinja::string text, LetterCase wanted) {
  auto beginsBehind = [&](char32_t code) {
    constexpr std::string_view signs = "-({[<";
    switch (wanted) {
    case LetterCase::upper:
      return true;
    case LetterCase::lower:
    case LetterCase::capital:
      return false;
    case LetterCase::title:
      return !isLetterOfCase(code);
    case LetterCase::titleFilter:
      break;
    }
    return isSpace(code) ||
           (code < 0x80 &&
            signs.find(static_cast<char>(code)) != std::string_view::npos);
  };
  bool isUpper =
      wanted == LetterCase::upper || wanted == LetterCase::titleFilter;
  bool begins = wanted != LetterCase::lower;
  for (jinja::string_part &part : text.parts) {
    std::string made;
    for (size_t at = 0; at < part.val.size();) {
      char32_t code = nextCodePoint(part.val, at);
      auto number = static_cast<utf8proc_int32_t>(code);
      if (!begins)
        appendLower(made, code);
      else if (code == sharpS)
        made += isUpper ? "SS" : "Ss";
      else
        appendUtf8(made,
                   static_cast<char32_t>(isUpper ? utf8proc_toupper(number)
                                                 : utf8proc_totitle(number)));
      begins = beginsBehind(code);
    }
    part.val = std::move(made);
  }
  return text;
}

} // namespace knapper::serving
