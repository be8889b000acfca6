// Chat templates (Jinja, as transformers renders them): conversations to text.
#pragma once

#include "runtime/base/Error.h"
#include "serving/json/OrderedJson.h"
#include "serving/tokenizer/AddedTokens.h"

#include <memory>

namespace knapper::serving {

/// A conversation as text, and the ranges of its bytes that users wrote: there
/// the texts of control tokens are just texts.
struct RenderedChat {
  std::string text;
  std::vector<AddedTokens::Range> literal;
};

/// A template that is parsed once. Thread-safe.
class ChatTemplate {
public:
  /// UserError with the place for what is no template.
  static Expected<ChatTemplate> parse(const std::string &source);
  ChatTemplate(ChatTemplate &&) noexcept;
  ChatTemplate &operator=(ChatTemplate &&) noexcept;
  ~ChatTemplate();

  /// `variables` is an object (messages, tools, add_generation_prompt, ...):
  /// its texts are a user's, but for the roles of messages. `names` are the
  /// model's own (bos_token, ...). UserError where the template refuses the
  /// conversation (raise_exception), fails or does too much; throws
  /// std::bad_alloc where there is no memory.
  Expected<RenderedChat>
  render(const OrderedJson &variables,
         const std::map<std::string, std::string> &names) const;

private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program;
};

} // namespace knapper::serving
