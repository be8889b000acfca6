// /v1/chat/completions and /v1/completions as typed requests.
#pragma once

#include "serving/chat/AnswerParser.h"
#include "serving/chat/ModelTexts.h"
#include "serving/engine/Engine.h"
#include "serving/grammar/GrammarSpec.h"
#include "serving/http/FieldReader.h"

namespace knapper::serving {

/// A prompt as `echo` shows it.
struct EchoedPrompt {
  std::string quoted; ///< as a JSON string, which every choice begins with
  size_t length = 0;  ///< of its text, in characters
  /// Where each token begins in it, in characters; only with log-probabilities.
  std::vector<size_t> offsets;
};

struct GenerationRequest {
  bool chat = false;
  std::vector<std::vector<int32_t>> prompts; ///< none empty
  std::vector<EchoedPrompt> echoed;          ///< with `echo`: of each prompt
  int32_t choices = 1;                       ///< for each prompt
  SamplingOptions sampling;                  ///< seed: of the first choice
  std::vector<int32_t> maxTokens;            ///< of each prompt; 0 with `echo`
  std::vector<std::string> stops;
  std::vector<int32_t> stopTokens;
  bool ignoreEos = false, skipSpecialTokens = true, includeStop = false;
  bool stream = false, includeUsage = false, echo = false;
  int32_t topLogprobs = -1; ///< -1: no logprobs
  int32_t priority = 0;
  std::optional<double> timeout;      ///< seconds from its arrival
  bool speculate = true;              ///< where the server does
  std::optional<GrammarSpec> grammar; ///< of every choice
  /// How a chat's answer is read; its `tools` are those below.
  AnswerParser::Settings answer;
  std::shared_ptr<const ToolSchemas> tools;
  std::string user; ///< for the log
  std::string salt; ///< of the prefix cache

  size_t sequences() const { return prompts.size() * choices; }
};

struct RequestContext {
  const ModelTexts &texts;
  ModelLimits limits;
  const std::string &model; ///< the name that requests must use, if any
  bool grammars;            ///< whether answers can be constrained
  /// Asked now and then while long texts become tokens; true ends that.
  std::function<bool()> stopped = {};
};

/// Reads and tokenises a body, or fills `error`.
std::optional<GenerationRequest> readChatRequest(const std::string &body,
                                                 const RequestContext &context,
                                                 ApiError &error);
std::optional<GenerationRequest>
readCompletionRequest(const std::string &body, const RequestContext &context,
                      ApiError &error);

/// The fields of both, for the documentation and the tests.
const std::vector<FieldRow> &chatFields();
const std::vector<FieldRow> &completionFields();
const std::vector<FieldRow> &messageFields();

/// The variables of a chat template, from a request's fields; the messages are
/// checked. Used by /tokenize too.
std::optional<FieldReader::Json> chatVariables(FieldReader &fields);
/// 404 for another model's name.
void checkModel(FieldReader &fields, const std::string &model);

} // namespace knapper::serving
