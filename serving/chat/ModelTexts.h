// What a model's folder says of texts: its tokenizer, its chat template, its
// control tokens.
#pragma once

#include "serving/chat/AnswerFormat.h"
#include "serving/chat/ChatTemplate.h"
#include "serving/tokenizer/Tokenizer.h"

#include <optional>

namespace knapper::serving {

struct ChatPrompt {
  std::vector<int32_t> tokens;
  ReasoningState reasoning = ReasoningState::closed;
};

/// Thread-safe once loaded.
class ModelTexts {
public:
  /// Reads tokenizer.json, and where they are there tokenizer_config.json,
  /// chat_template.jinja and generation_config.json. UserError naming the file.
  static Expected<std::unique_ptr<ModelTexts>> load(const std::string &folder);

  const Tokenizer &tokenizer() const { return *texts; }
  bool hasTemplate() const { return chat.has_value(); }
  /// The tokens of a rendered conversation. `variables` as ChatTemplate takes
  /// them, `stopped` as Tokenizer::encode. UserError also where the folder has
  /// no template.
  Expected<ChatPrompt>
  encodeChat(const OrderedJson &variables,
             const std::function<bool()> &stopped = {}) const;
  /// The rendered conversation.
  Expected<RenderedChat> render(const OrderedJson &variables) const;
  /// What the chat template says of its answers; null: nothing that is known.
  const ToolFormat *toolFormat() const { return tools; }
  const ReasoningFormat *reasoningFormat() const { return reasoning; }
  /// Control tokens that these formats have: they are part of an answer's text.
  const std::vector<int32_t> &markTokens() const { return marks; }
  /// Tokens that end a text: generation_config.json's and eos_token.
  const std::vector<int32_t> &endTokens() const { return ends; }
  /// temperature, top_p, top_k, min_p and repetition_penalty that
  /// generation_config.json recommends.
  const std::map<std::string, double> &recommended() const { return defaults; }

private:
  void findFormats(const std::string &source, const std::string &toolSource);

  std::unique_ptr<Tokenizer> texts;
  std::optional<ChatTemplate> chat, toolChat;
  std::map<std::string, std::string> names;
  std::vector<int32_t> ends, marks;
  const ToolFormat *tools = nullptr;
  const ReasoningFormat *reasoning = nullptr;
  std::map<std::string, double> defaults;
};

/// Whether the tokens of both models are the same. UserError that names the
/// first that differs.
Status checkSameTokens(const ModelTexts &texts, const std::string &folder);

} // namespace knapper::serving
