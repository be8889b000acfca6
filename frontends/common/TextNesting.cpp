#include "frontends/common/TextNesting.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace knapper {
namespace {

// The parser recurses once a bracket, and inside of brackets other than bodies
// once an operand of a chain ("d0 + d1 + ..."), a few hundred bytes each time.
constexpr size_t kDeepest = 256;
constexpr unsigned kLongestChain = 4096;

class NestingCheck {
public:
  NestingCheck(StringRef text, const std::string &where,
               const std::string &hint)
      : text(text), where(where), hint(hint) {}

  Status run() {
    while (at < text.size() && !problem)
      step();
    if (!problem)
      return success();
    auto line = text.take_front(at).count('\n') + 1;
    return userError(problem, cat(where, ":", line), hint);
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
  const std::string &where, &hint;
  size_t at = 0;
  SmallVector<Bracket> open_;
  const char *problem = nullptr;
};

} // namespace

Status checkNesting(StringRef text, const std::string &where,
                    const std::string &hint) {
  return NestingCheck(text, where, hint).run();
}

} // namespace knapper
