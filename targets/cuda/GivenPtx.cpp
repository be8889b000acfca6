#include "targets/cuda/GivenPtx.h"
#include "runtime/base/Text.h"
#include "targets/cuda/PtxTokens.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace knapper {
namespace {

using Kind = PtxToken::Kind;

bool isOneOf(const PtxToken &token, std::initializer_list<StringRef> list) {
  return llvm::is_contained(list, token.text);
}

/// What one module defines, and which of its words stand for that.
class PtxModuleReader {
public:
  explicit PtxModuleReader(StringRef text)
      : text(text), tokens(ptxTokens(text)) {
    readDeclarations();
  }

  /// The token behind the directive, or nothing.
  StringRef valueOf(StringRef directive) const {
    for (size_t i = 0; i + 1 < tokens.size(); ++i)
      if (tokens[i].is(directive))
        return tokens[i + 1].text;
    return {};
  }

  /// The place of the entry's name, or 0.
  size_t entryAt(StringRef name) const {
    for (size_t i = 1; i < tokens.size(); ++i)
      if (tokens[i - 1].is(".entry") && tokens[i].is(name))
        return i;
    return 0;
  }

  /// Of each parameter of an entry whether it has 64 bits.
  std::vector<bool> parametersOf(size_t entry) const {
    std::vector<bool> wide;
    if (entry + 1 >= tokens.size() || !tokens[entry + 1].is("("))
      return wide;
    for (size_t i = entry + 2; i < tokens.size() && !tokens[i].is(")"); ++i) {
      if (tokens[i].is(".param"))
        wide.push_back(false);
      else if (!wide.empty() &&
               isOneOf(tokens[i], {".u64", ".s64", ".b64", ".f64"}))
        wide.back() = true;
      else if (!wide.empty() && tokens[i].is("["))
        wide.back() = false;
    }
    return wide;
  }

  /// What follows `.address_size 64`, with each name that the module defines
  /// replaced.
  std::string renamed(llvm::function_ref<std::string(StringRef)> newName) const;

private:
  void readDeclarations();
  bool isOpcode(size_t i, bool inBody) const;
  /// The first character behind what is left out at this token; 0: nothing is.
  size_t skipped(size_t i) const;
  size_t offsetOf(const PtxToken &token) const {
    return static_cast<size_t>(token.text.data() - text.data());
  }

  StringRef text;
  std::vector<PtxToken> tokens;
  llvm::StringSet<> defined;
};

/// Names of module scope: of entries, of functions that are not the driver's,
/// and of variables.
void PtxModuleReader::readDeclarations() {
  int depth = 0;
  bool isExternal = false, isVariable = false, hasValue = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const PtxToken &token = tokens[i];
    depth += token.is("{") - token.is("}");
    if (depth > 0)
      continue;
    if (isOneOf(token, {";", "}"}))
      isExternal = isVariable = hasValue = false;
    isExternal |= token.is(".extern");
    isVariable |= isOneOf(token, {".global", ".const", ".shared", ".texref",
                                  ".samplerref", ".surfref"});
    hasValue = token.is("=") || (hasValue && !token.is(","));
    if (isOneOf(token, {".entry", ".func"})) {
      size_t at = i + 1;
      if (at < tokens.size() && tokens[at].is("(")) // what it returns
        while (at < tokens.size() && !tokens[at++].is(")")) {
        }
      while (at < tokens.size() && tokens[at].kind == Kind::directive)
        ++at;
      if (at < tokens.size() && tokens[at].kind == Kind::name &&
          !(isExternal && token.is(".func")))
        defined.insert(tokens[at].text);
    } else if (isVariable && !hasValue && token.kind == Kind::name && i > 0 &&
               (tokens[i - 1].kind == Kind::directive ||
                isOneOf(tokens[i - 1], {",", ")"}))) {
      defined.insert(token.text);
    }
  }
}

/// Whether a word that is a name of the module is an instruction here: "add" of
/// "add.s32", "ret" where a statement begins.
bool PtxModuleReader::isOpcode(size_t i, bool inBody) const {
  const PtxToken &token = tokens[i];
  if (i + 1 < tokens.size() && tokens[i + 1].kind == Kind::directive &&
      tokens[i + 1].text.data() == token.text.end())
    return true;
  if (!inBody || i == 0)
    return false;
  bool predicated = i > 1 && (tokens[i - 2].is("@") || tokens[i - 2].is("!")) &&
                    tokens[i - 1].kind == Kind::name;
  return predicated || isOneOf(tokens[i - 1], {";", "{", "}", ":"});
}

/// Line numbers and debug sections count from 1 in every module.
size_t PtxModuleReader::skipped(size_t i) const {
  size_t at = offsetOf(tokens[i]);
  if (isOneOf(tokens[i], {".file", ".loc"}))
    return std::min(text.find('\n', at), text.size());
  if (!tokens[i].is(".section"))
    return 0;
  size_t end = text.find('}', at);
  return end == StringRef::npos ? text.size() : end + 1;
}

std::string PtxModuleReader::renamed(
    llvm::function_ref<std::string(StringRef)> newName) const {
  std::string out;
  size_t i = 0;
  while (i < tokens.size() && !tokens[i].is(".address_size"))
    ++i;
  i += 2; // and its number
  size_t from =
      i <= tokens.size() ? tokens[i - 1].text.end() - text.data() : text.size();
  // Of each open brace whether instructions stand in it.
  std::vector<bool> bodies;
  for (; i < tokens.size(); ++i) {
    const PtxToken &token = tokens[i];
    size_t at = offsetOf(token);
    if (at < from) // left out
      continue;
    if (size_t end = skipped(i)) {
      out += text.substr(from, at - from);
      from = end;
      continue;
    }
    bool inBody = !bodies.empty() && bodies.back();
    if (token.is("{"))
      bodies.push_back(inBody || !tokens[i - 1].is("="));
    if (token.is("}") && !bodies.empty())
      bodies.pop_back();
    if (token.kind != Kind::name || !defined.contains(token.text) ||
        isOpcode(i, inBody))
      continue;
    out += text.substr(from, at - from);
    out += newName(token.text);
    from = at + token.text.size();
  }
  return out + text.substr(from).str() + "\n";
}

std::optional<std::pair<unsigned, unsigned>> versionOf(StringRef module) {
  std::pair<unsigned, unsigned> version;
  StringRef rest = module.split(".version").second.ltrim();
  if (rest.consumeInteger(10, version.first) || !rest.consume_front(".") ||
      rest.consumeInteger(10, version.second))
    return std::nullopt;
  return version;
}

/// The first version of PTX that knows the processor.
std::pair<unsigned, unsigned> leastVersion(StringRef isa) {
  if (isa == "sm_80")
    return {7, 0};
  if (isa == "sm_86")
    return {7, 1};
  return isa == "sm_89" ? std::pair(7u, 8u) : std::pair(8u, 0u);
}

} // namespace

Expected<NamedPtx> namedPtx(const KernelJob &job, std::string_view target) {
  const GivenCode &given = *job.given;
  auto refuse = [&](std::string what) {
    return userError(std::move(what), given.path,
                     "nvcc -ptx -arch=... makes such a file; name the entry "
                     "as it stands there");
  };
  if (given.code.find('\0') != std::string::npos)
    return refuse("is no PTX text");
  std::string plain = withoutPtxComments(given.code);
  PtxModuleReader reader(plain);
  std::optional<std::pair<unsigned, unsigned>> version = versionOf(plain);
  if (!version || reader.valueOf(".address_size") != "64")
    return refuse("is no PTX of 64 bits: it has no .version, or no "
                  ".address_size 64");
  StringRef isa = reader.valueOf(".target");
  if (!runsPtxOf(target, isa))
    return refuse(cat("is for ", std::string_view(isa),
                      ", which does not run "
                      "on ",
                      target));
  size_t entry = reader.entryAt(given.entry);
  if (!entry)
    return refuse(cat("has no .entry '", given.entry, "'"));
  std::vector<bool> parameters = reader.parametersOf(entry);
  size_t wanted = size_t(given.numBuffers) + given.numSymbols + 2;
  if (parameters.size() != wanted || llvm::is_contained(parameters, false))
    return refuse(cat("'", given.entry, "' has ", parameters.size(),
                      " parameters, its kernel has ", wanted,
                      " of 64 bits: ", given.numBuffers, " buffers, ",
                      given.numSymbols, " symbols, the status and the grid"));
  NamedPtx named;
  named.version = *version;
  named.body = reader.renamed([&](StringRef name) {
    return name == given.entry ? job.name
                               : cat(job.name, "_", std::string_view(name));
  });
  return named;
}

std::string ptxHead(StringRef head, std::pair<unsigned, unsigned> version,
                    StringRef isa) {
  auto known = versionOf(head);
  version = std::max(version, leastVersion(isa));
  if (known && *known >= version)
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
