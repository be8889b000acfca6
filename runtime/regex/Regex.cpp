// RegexFullMatch by PCRE2, in a library of its own: it is two thirds as large
// as the runtime, and few models ask for it. The registry loads it
// (runtime/operators/Registry.h).
#include "runtime/operators/HostDomain.h"
#include "runtime/operators/TextWriter.h"
#include "runtime/regex/Syntax.h"

#include <map>
#include <memory>
#include <mutex>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace knapper {
namespace {

using Code = std::shared_ptr<const pcre2_code>;

PCRE2_SPTR bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

Code compile(std::string_view pattern, std::string &problem) {
  std::string text = translatePattern(pattern, problem);
  if (!problem.empty())
    return nullptr;
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code *made =
      pcre2_compile(bytes(text), text.size(),
                    PCRE2_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C |
                        PCRE2_DOLLAR_ENDONLY,
                    &error, &at, nullptr);
  if (made)
    return Code(made, [](const pcre2_code *code) {
      pcre2_code_free(const_cast<pcre2_code *>(code));
    });
  PCRE2_UCHAR said[256] = {};
  pcre2_get_error_message(error, said, sizeof said);
  problem = reinterpret_cast<const char *>(said);
  return nullptr;
}

/// Compiled patterns. All are dropped when there are many: who uses one holds
/// it.
class Patterns {
public:
  Code get(std::string_view pattern, std::string &problem) {
    std::lock_guard lock(mutex);
    auto it = known.find(pattern);
    if (it != known.end())
      return it->second;
    Code code = compile(pattern, problem);
    if (!code)
      return nullptr;
    if (known.size() >= 64)
      known.clear();
    return known[std::string(pattern)] = code;
  }

private:
  std::mutex mutex;
  std::map<std::string, Code, std::less<>> known;
};

/// Never destroyed: threads may outlive the objects of the library.
Patterns &patterns() {
  static Patterns &only = *new Patterns;
  return only;
}

/// Null with a message for a pattern that is none.
Code patternOf(const knapper_call *call) {
  std::span<const knapper_string> given = textAttributes(call, "pattern");
  if (call->num_inputs != 1 || call->inputs[0].rank < 0 ||
      call->inputs[0].dtype != KNAPPER_STRING || call->num_outputs != 1 ||
      given.size() != 1) {
    failCall(call, "the operator takes one tensor of strings and one pattern");
    return nullptr;
  }
  std::string problem;
  Code code = patterns().get(view(given[0]), problem);
  if (!code)
    failCall(call, "the pattern is no regular expression: " + problem);
  return code;
}

int shape(void *, const knapper_call *call, knapper_result_shape *results) {
  if (!patternOf(call))
    return 1;
  const knapper_tensor &x = call->inputs[0];
  results[0] = {KNAPPER_I1, x.rank, {}};
  for (int32_t d = 0; d < x.rank; ++d)
    results[0].shape[d] = x.shape[d];
  return 0;
}

/// All ways through the pattern at once: no backtracking, so the time is linear
/// in the text. `space` grows to what the pattern's states take.
int matches(const pcre2_code *code, std::string_view text,
            pcre2_match_data *data, std::vector<int> &space) {
  constexpr size_t most = size_t(1) << 22; // 16 MiB
  for (;;) {
    int found = pcre2_dfa_match(code, bytes(text), text.size(), 0,
                                PCRE2_ANCHORED | PCRE2_ENDANCHORED, data,
                                nullptr, space.data(), space.size());
    if (found != PCRE2_ERROR_DFA_WSSIZE || space.size() >= most)
      return found;
    space.resize(space.size() * 4);
  }
}

int match(void *, const knapper_call *call) {
  Code code = patternOf(call);
  if (!code)
    return 1;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!data)
    return failCall(call, "no memory for a match");
  std::vector<int> space(size_t(1) << 12);
  auto *y = static_cast<uint8_t *>(call->outputs[0].data);
  for (const knapper_string &text : textsOf(call->inputs[0])) {
    int found = matches(code.get(), view(text), data.get(), space);
    // Bytes that are no UTF-8 match nothing.
    bool none =
        found == PCRE2_ERROR_NOMATCH ||
        (found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21);
    if (found < 0 && !none)
      return failCall(call, "the pattern takes more memory than a match has");
    *y++ = !none;
  }
  return 0;
}

} // namespace
} // namespace knapper

extern "C" __attribute__((visibility("default"))) knapper_error *
knapper_operators(knapper_register_function *add) {
  knapper_operator op = KNAPPER_OPERATOR_INIT;
  op.domain = knapper::kHostDomain;
  op.name = "RegexFullMatch";
  op.shape = knapper::shape;
  op.compute = knapper::match;
  return add(&op);
}
