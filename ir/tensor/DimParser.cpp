#include "ir/tensor/DimFunctions.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper::ts {
namespace {

/// Recursive descent over  sum := ['-'] term {('+'|'-') term},
/// term := factor {'*' factor}, factor := number | symbol | fn(sum, sum) |
/// (sum).
struct DimParser {
  MLIRContext *context;
  StringRef text;
  unsigned depth = 0;
  bool failed = false;

  bool accept(StringRef token) {
    text = text.ltrim();
    return text.consume_front(token);
  }
  Dim fail() {
    failed = true;
    return Dim::constant(context, 0);
  }

  Dim parseSum() {
    if (++depth > 64)
      return fail();
    Dim value = accept("-") ? parseTerm() * -1 : parseTerm();
    while (!failed) {
      if (accept("+"))
        value = value + parseTerm();
      else if (accept("-"))
        value = value - parseTerm();
      else
        break;
    }
    --depth;
    return value;
  }

  Dim parseTerm() {
    Dim value = parseFactor();
    while (!failed && accept("*"))
      value = value * parseFactor();
    return value;
  }

  Dim parseFactor() {
    if (accept("(")) {
      Dim value = parseSum();
      return accept(")") ? value : fail();
    }
    if (accept("`")) {
      std::string name;
      while (true) {
        if (text.empty())
          return fail();
        if (text.consume_front("``"))
          name += '`';
        else if (text.consume_front("`"))
          break;
        else {
          name += text.front();
          text = text.drop_front();
        }
      }
      return Dim::symbol(context, name);
    }
    text = text.ltrim();
    if (!text.empty() && llvm::isDigit(text[0])) {
      uint64_t magnitude;
      if (text.consumeInteger(10, magnitude) || magnitude > INT64_MAX)
        return fail();
      return Dim::constant(context, static_cast<int64_t>(magnitude));
    }
    StringRef name = text.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    if (name.empty())
      return fail();
    text = text.drop_front(name.size());
    for (auto [index, fn] : llvm::enumerate(kDimFnNames)) {
      if (name != fn)
        continue;
      if (!accept("("))
        return fail();
      Dim a = parseSum();
      if (!accept(","))
        return fail();
      Dim b = parseSum();
      if (failed || !accept(")"))
        return fail();
      return applyDimFn(static_cast<DimFn>(index), a, b);
    }
    return Dim::symbol(context, name);
  }
};

} // namespace

std::optional<Dim> parseDim(MLIRContext *context, StringRef text) {
  DimParser parser{context, text};
  Dim value = parser.parseSum();
  if (parser.failed || !parser.text.trim().empty())
    return std::nullopt;
  return value;
}

} // namespace knapper::ts
