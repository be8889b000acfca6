#include "compiler/pipeline/TensorText.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {
namespace {

// The parser recurses once a bracket, and inside of brackets other than bodies
// once an operand of a chain ("d0 + d1 + ..."), a few hundred bytes each time.
constexpr size_t kDeepest = 256;
constexpr unsigned kLongestChain = 4096;

class NestingCheck {
public:
  NestingCheck(StringRef text, const std::string &where)
      : text(text), where(where) {}

  Status run() {
    while (at < text.size() && !problem)
      step();
    if (!problem)
      return success();
    auto line = text.take_front(at).count('\n') + 1;
    return userError(problem, cat(where, ":", line),
                     "give what --dump-dir wrote, or an ONNX model");
  }

private:
  struct Bracket {
    char close;
    unsigned words = 0; ///< since the last comma
  };

  void step() {
    char c = text[at];
    switch (c) {
    case '"':
      skipString();
      countWord();
      return;
    case '/':
      if (text.substr(at).starts_with("//")) {
        at = std::min(text.find('\n', at), text.size());
        return;
      }
      break;
    case '(':
      return open(')');
    case '[':
      return open(']');
    case '{':
      return open('}');
    case '<':
      // "<=" compares, in affine sets.
      return text.substr(at).starts_with("<=") ? skip(2) : open('>');
    case '-':
    case '>':
      if (text.substr(at).starts_with("->") ||
          text.substr(at).starts_with(">="))
        return skip(2);
      if (c == '>')
        return close(c);
      break;
    case ')':
    case ']':
    case '}':
      return close(c);
    case ',':
      if (!open_.empty())
        open_.back().words = 0;
      return skip(1);
    default:
      break;
    }
    if (llvm::isSpace(c))
      return skip(1);
    countWord();
    if (!isWord(c))
      return skip(1);
    while (at < text.size() && isWord(text[at]))
      ++at;
  }

  static bool isWord(char c) { return llvm::isAlnum(c) || c == '_'; }
  void skip(size_t count) { at += count; }
  void skipString() {
    for (++at; at < text.size() && text[at] != '"'; ++at)
      if (text[at] == '\\')
        ++at;
    ++at;
  }
  void open(char closedBy) {
    countWord();
    open_.push_back({closedBy});
    if (open_.size() > kDeepest)
      problem = "is nested too deeply";
    ++at;
  }
  void close(char c) {
    // What fits nothing is the parser's to refuse.
    if (!open_.empty() && open_.back().close == c)
      open_.pop_back();
    ++at;
  }
  void countWord() {
    if (!open_.empty() && open_.back().close != '}' &&
        ++open_.back().words > kLongestChain)
      problem = "has an expression that is too long";
  }

  StringRef text;
  const std::string &where;
  size_t at = 0;
  SmallVector<Bracket> open_;
  const char *problem = nullptr;
};

} // namespace

bool isText(const CompileInput &input, const Options &options) {
  if (!options.modelFormat.empty())
    return options.modelFormat == "mlir";
  return input.path.empty() ? !options.startFrom.empty()
                            : StringRef(input.path).ends_with(".mlir");
}

ModelInput modelOf(const CompileInput &input) {
  return {input.path, input.bytes};
}

const FrontEnd &frontEndOf(const CompileInput &input, const Options &options) {
  const FrontEnd *named = findFrontEnd(options.modelFormat);
  return named ? *named : frontEndFor(modelOf(input));
}

Status checkNesting(StringRef text, const std::string &where) {
  return NestingCheck(text, where).run();
}

Expected<OwningOpRef<ModuleOp>> parseTensorText(CompileState &state,
                                                const std::string &path) {
  std::string read;
  StringRef text(state.input.bytes.data(), state.input.bytes.size());
  std::string where = path.empty() ? "the model" : path;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
    ASSIGN_OR_RETURN(std::string content, file.read());
    read = std::move(content);
    text = read;
  }
  if (text.starts_with("ML\xefR"))
    return userError("is MLIR bytecode, not text", where,
                     "print the program as text");
  TRY(checkNesting(text, where));
  ParserConfig config(state.context.get());
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, config, path);
  if (module && failed(verify(*module)))
    module = {};
  return module;
}

} // namespace knapper
