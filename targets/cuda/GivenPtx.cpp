#include "targets/cuda/GivenPtx.h"
#include "runtime/base/Text.h"

#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace knapper {

/// What PTX allows in a name (ISA 4.4).
static bool isNamePart(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '%';
}

/// The next place at or after `from` where `name` stands as a whole word.
static size_t findWord(StringRef text, StringRef name, size_t from) {
  for (size_t at = text.find(name, from); at != StringRef::npos;
       at = text.find(name, at + 1)) {
    size_t end = at + name.size();
    if ((at == 0 || !isNamePart(text[at - 1])) &&
        (end == text.size() || !isNamePart(text[end])))
      return at;
  }
  return StringRef::npos;
}

/// The text without comments, of the same length: they may hold anything.
static std::string withoutComments(StringRef text) {
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

/// The parameters of the entry in `plain`, or nothing where it is not there.
static std::optional<size_t> parametersOf(StringRef plain, StringRef entry) {
  for (size_t at = plain.find(".entry"); at != StringRef::npos;
       at = plain.find(".entry", at + 1)) {
    StringRef rest = plain.substr(at + 6).ltrim();
    if (findWord(rest, entry, 0) != 0)
      continue;
    rest = rest.substr(entry.size()).ltrim();
    if (!rest.starts_with("("))
      return 0;
    StringRef list = rest.take_until([](char c) { return c == ')'; });
    size_t count = 0;
    for (size_t p = findWord(list, "param", 0); p != StringRef::npos;
         p = findWord(list, "param", p + 1))
      ++count;
    return count;
  }
  return std::nullopt;
}

Expected<NamedPtx> namedPtx(const KernelJob &job) {
  const GivenCode &given = *job.given;
  auto refuse = [&](std::string what) {
    return userError(std::move(what), given.path,
                     "nvcc -ptx -arch=... makes such a file; name the entry "
                     "as it stands there");
  };
  if (given.code.find('\0') != std::string::npos)
    return refuse("is no PTX text");
  std::string plain = withoutComments(given.code);
  for (const char *directive : {".version", ".target", ".address_size 64"})
    if (plain.find(directive) == std::string::npos)
      return refuse(cat("is no PTX of 64 bits: it has no ", directive));
  std::optional<size_t> parameters = parametersOf(plain, given.entry);
  if (!parameters)
    return refuse(cat("has no .entry '", given.entry, "'"));
  size_t wanted = size_t(given.numBuffers) + given.numSymbols + 2;
  if (*parameters != wanted)
    return refuse(cat("'", given.entry, "' has ", *parameters,
                      " parameters, its kernel has ", wanted, ": ",
                      given.numBuffers, " buffers, ", given.numSymbols,
                      " symbols, the status and the grid"));
  NamedPtx named;
  StringRef version = StringRef(plain).split(".version").second.ltrim();
  if (version.consumeInteger(10, named.version.first) ||
      !version.consume_front(".") ||
      version.consumeInteger(10, named.version.second))
    return refuse("has a .version that is no number");
  size_t from = plain.find(".address_size 64") + strlen(".address_size 64");
  for (size_t at = findWord(plain, given.entry, from); at != StringRef::npos;
       at = findWord(plain, given.entry, from)) {
    named.body += plain.substr(from, at - from) + job.name;
    from = at + given.entry.size();
  }
  named.body += plain.substr(from) + "\n";
  return named;
}

std::string ptxHead(StringRef head, std::pair<unsigned, unsigned> version,
                    StringRef isa) {
  std::pair<unsigned, unsigned> known = {};
  StringRef rest = head.split(".version").second.ltrim();
  if (!rest.consumeInteger(10, known.first) && rest.consume_front("."))
    (void)rest.consumeInteger(10, known.second);
  if (known >= version)
    return head.str();
  return cat(".version ", version.first, ".", version.second, "\n.target ",
             std::string_view(isa), "\n.address_size 64\n\n");
}

bool runsPtxOf(std::string_view target, std::string_view isa) {
  if (target == isa)
    return true;
  StringRef have(target), need(isa);
  unsigned haveNumber = 0, needNumber = 0;
  if (!have.consume_front("sm_") || !need.consume_front("sm_") ||
      have.consumeInteger(10, haveNumber) ||
      need.consumeInteger(10, needNumber))
    return false;
  return need.empty() && needNumber <= haveNumber;
}

} // namespace knapper
