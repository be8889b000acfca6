#include "targets/cuda/PtxTokens.h"

#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace knapper {

static bool isNamePart(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '%';
}

std::string withoutPtxComments(StringRef text) {
  std::string plain = text.str();
  for (size_t at = 0; at + 1 < plain.size(); ++at) {
    if (plain[at] == '"') { // the name of a file
      at = std::min(plain.find('"', at + 1), plain.size());
      continue;
    }
    bool line = plain[at] == '/' && plain[at + 1] == '/';
    if (!line && !(plain[at] == '/' && plain[at + 1] == '*'))
      continue;
    size_t end = line ? plain.find('\n', at) : plain.find("*/", at + 2);
    end = end == std::string::npos ? plain.size() : line ? end : end + 2;
    for (; at < end; ++at)
      if (plain[at] != '\n')
        plain[at] = ' ';
    --at;
  }
  return plain;
}

std::vector<PtxToken> ptxTokens(StringRef module) {
  using Kind = PtxToken::Kind;
  std::vector<PtxToken> tokens;
  StringRef rest = module;
  while (!(rest = rest.ltrim()).empty()) {
    size_t size = 1;
    Kind kind = Kind::other;
    auto nameFrom = [&](size_t from) {
      for (size = from; size < rest.size() && isNamePart(rest[size]); ++size) {
      }
    };
    if (rest[0] == '"') {
      kind = Kind::text;
      size = std::min(rest.find('"', 1), rest.size() - 1) + 1;
    } else if (rest[0] == '.' && rest.size() > 1 && isNamePart(rest[1])) {
      kind = Kind::directive;
      nameFrom(1);
      // "::" joins the parts of a qualifier.
      while (rest.substr(size).starts_with("::"))
        nameFrom(size + 2);
    } else if (isNamePart(rest[0])) {
      kind = llvm::isDigit(rest[0]) ? Kind::other : Kind::name;
      nameFrom(0);
    }
    tokens.push_back({kind, rest.take_front(size)});
    rest = rest.substr(size);
  }
  return tokens;
}

} // namespace knapper
