#include "serving/http/GenerationRequest.h"

#include "runtime/base/Json.h"
#include "serving/http/DrawnBits.h"
#include "serving/http/StructuredOutput.h"
#include "serving/http/ToolFields.h"
#include "serving/sampling/SamplingBounds.h"
#include "serving/tokenizer/Detokenizer.h"
#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace knapper::serving {

using Json = FieldReader::Json;

void checkModel(FieldReader &fields, const std::string &model) {
  std::optional<std::string> name = fields.text("model");
  if (!name || *name == model)
    return;
  ApiError error;
  error.status = 404;
  error.param = "model";
  error.code = "model_not_found";
  error.message =
      "the model '" + *name + "' is not served here; '" + model + "' is";
  fields.fail(std::move(error));
}

namespace {

constexpr int64_t mostSequences = 128; ///< prompts times n of one request
/// Of all prompts' tokens with their alternatives, for all choices.
constexpr int64_t mostPromptLogprobs = 1 << 18;

/// A message's content as one text: parts of text are joined by newlines.
std::optional<std::string> contentOf(FieldReader &message,
                                     const Json &content) {
  if (content.is_string())
    return content.get<std::string>();
  if (!content.is_array()) {
    message.fail("content", "must be a text or a list of parts");
    return std::nullopt;
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json &part = content[i];
    std::string name = "content[" + std::to_string(i) + "]";
    std::string type =
        part.is_object() && part.contains("type") && part["type"].is_string()
            ? part["type"].get<std::string>()
            : std::string();
    if (type != "text" || !part.contains("text") || !part["text"].is_string()) {
      message.fail(name,
                   type.empty() || type == "text"
                       ? "must be {\"type\": \"text\", \"text\": ...}"
                       : "is of type '" + type +
                             "'; the model reads 'text' only",
                   type.empty() || type == "text" ? "invalid_value"
                                                  : "unsupported_field");
      return std::nullopt;
    }
    text += (i ? "\n" : "") + part["text"].get<std::string>();
  }
  return text;
}

/// Arguments of earlier calls are texts of JSON; templates want objects.
void readToolCalls(FieldReader &message, const Json &calls, Json &made) {
  if (!calls.is_array()) {
    message.fail("tool_calls", "must be a list");
    return;
  }
  made = calls;
  for (Json &call : made) {
    if (!call.is_object() || !call.contains("function") ||
        !call["function"].is_object() || !call["function"].contains("name") ||
        !call["function"]["name"].is_string()) {
      message.fail("tool_calls", "must hold {\"function\": {\"name\": ...}}");
      return;
    }
    Json &function = call["function"];
    if (function.contains("arguments") && function["arguments"].is_string()) {
      ApiError ignored;
      if (auto object =
              parseBody(function["arguments"].get<std::string>(), ignored))
        function["arguments"] = std::move(*object);
    }
  }
}

} // namespace

std::optional<Json> chatVariables(FieldReader &fields) {
  const Json *messages = fields.find("messages");
  if (!messages || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "must be a list of at least one message");
    return std::nullopt;
  }
  Json list = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json &given = (*messages)[i];
    std::string place = "messages[" + std::to_string(i) + "]";
    if (!given.is_object()) {
      fields.fail(place, "must be an object");
      return std::nullopt;
    }
    FieldReader message(given, place);
    message.checkNames(messageFields());
    std::string role = message.text("role").value_or("");
    constexpr std::string_view roles[] = {"system", "developer", "user",
                                          "assistant", "tool"};
    if (std::find(std::begin(roles), std::end(roles), role) == std::end(roles))
      message.fail("role",
                   "must be system, developer, user, assistant or tool");
    Json made = {{"role", role}};
    const Json *content = message.find("content");
    const Json *calls = message.find("tool_calls");
    if (content)
      made["content"] = contentOf(message, *content).value_or("");
    else if (role == "assistant")
      made["content"] = calls ? Json() : Json("");
    else
      message.fail("content", "is missing");
    if (calls)
      readToolCalls(message, *calls, made["tool_calls"]);
    for (const char *name :
         {"name", "tool_call_id", "reasoning_content", "reasoning"})
      if (std::optional<std::string> text = message.text(name))
        made[name] = *text;
    if (message.text("refusal").value_or("") != "")
      message.fail("refusal", "must be null or empty");
    if (message.failure()) {
      fields.fail(*message.failure());
      return std::nullopt;
    }
    list.push_back(std::move(made));
  }
  Json variables = Json::object();
  if (const Json *more = fields.find("chat_template_kwargs")) {
    if (!more->is_object()) {
      fields.fail("chat_template_kwargs", "must be an object");
      return std::nullopt;
    }
    variables = *more;
  }
  for (const char *name : {"documents", "reasoning_effort"})
    if (const Json *value = fields.find(name))
      variables[name] = *value;
  variables["messages"] = std::move(list);
  variables["add_generation_prompt"] =
      fields.flag("add_generation_prompt", true);
  if (!fields.ok())
    return std::nullopt;
  return variables;
}

namespace {

void readStops(FieldReader &fields, GenerationRequest &request) {
  const Json *stop = fields.find("stop");
  if (!stop)
    return;
  Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array() || list.size() > 16) {
    fields.fail("stop", "must be a text or a list of at most 16");
    return;
  }
  for (const Json &item : list) {
    if (!item.is_string() || item.get_ref<const std::string &>().empty() ||
        item.get_ref<const std::string &>().size() > 1024) {
      fields.fail("stop", "must hold texts of 1 to 1024 bytes");
      return;
    }
    request.stops.push_back(item.get<std::string>());
  }
}

void readSampling(FieldReader &fields, const RequestContext &context,
                  GenerationRequest &request) {
  const std::map<std::string, double> &defaults = context.texts.recommended();
  auto otherwise = [&](const SamplingBound &bound) {
    auto found = defaults.find(std::string(bound.field));
    return found == defaults.end() ? bound.otherwise : found->second;
  };
  auto number = [&](const SamplingBound &bound) {
    return static_cast<float>(
        fields.number(bound.field, bound.least, bound.most)
            .value_or(otherwise(bound)));
  };
  SamplingOptions &sampling = request.sampling;
  sampling.temperature = number(samplingBound("temperature"));
  sampling.topP = number(samplingBound("top_p"));
  if (sampling.topP <= 0) { // nothing but the most likely token
    sampling.topP = 1;
    sampling.temperature = 0;
  }
  sampling.minP = number(samplingBound("min_p"));
  constexpr const SamplingBound &topK = samplingBound("top_k");
  sampling.topK = static_cast<int32_t>(
      fields
          .integer(topK.field, static_cast<int64_t>(topK.least),
                   static_cast<int64_t>(topK.most))
          .value_or(static_cast<int64_t>(otherwise(topK))));
  sampling.topK = std::max(sampling.topK, 0);
  sampling.frequencyPenalty = number(samplingBound("frequency_penalty"));
  sampling.presencePenalty = number(samplingBound("presence_penalty"));
  sampling.repetitionPenalty = number(samplingBound("repetition_penalty"));
  if (std::optional<int64_t> seed =
          fields.integer("seed", INT64_MIN, INT64_MAX))
    sampling.seed = static_cast<uint64_t>(*seed);
  else
    sampling.seed = drawnBits();
  if (const Json *bias = fields.find("logit_bias")) {
    if (!bias->is_object())
      return fields.fail("logit_bias", "must be an object of tokens");
    for (auto it = bias->begin(); it != bias->end(); ++it) {
      const std::string &key = it.key();
      const char *last = key.data() + key.size();
      int32_t id = -1;
      auto [end, problem] = std::from_chars(key.data(), last, id);
      constexpr const SamplingBound &bound = samplingBound("logit_bias");
      double value = it.value().is_number() ? it.value().get<double>() : NAN;
      if (problem != std::errc() || end != last || id < 0 ||
          id >= context.limits.vocabulary || !bound.holds(value))
        return fields.fail("logit_bias",
                           "must map tokens (0 to " +
                               std::to_string(context.limits.vocabulary - 1) +
                               ") to numbers of " +
                               rangeText(bound.least, bound.most));
      sampling.bias[id] = static_cast<float>(value);
    }
  }
}

/// The fields of both requests but the prompts.
void readCommon(FieldReader &fields, const RequestContext &context,
                GenerationRequest &request) {
  readSampling(fields, context, request);
  readStops(fields, request);
  request.grammar = readGrammar(fields);
  request.choices =
      static_cast<int32_t>(fields.integer("n", 1, mostSequences).value_or(1));
  request.stopTokens = fields.tokens("stop_token_ids");
  request.ignoreEos = fields.flag("ignore_eos", false);
  if (!request.ignoreEos)
    request.stopTokens.insert(request.stopTokens.end(),
                              context.texts.endTokens().begin(),
                              context.texts.endTokens().end());
  request.skipSpecialTokens = fields.flag("skip_special_tokens", true);
  request.includeStop = fields.flag("include_stop_str_in_output", false);
  request.stream = fields.flag("stream", false);
  if (const Json *options = fields.find("stream_options")) {
    if (!options->is_object())
      return fields.fail("stream_options", "must be an object");
    if (!request.stream)
      return fields.fail("stream_options", "needs 'stream': true");
    FieldReader reader(*options, "stream_options");
    reader.checkNames({{"include_usage", {}},
                       {"include_obfuscation", "events are not padded"}});
    request.includeUsage = reader.flag("include_usage", false);
    if (reader.failure())
      fields.fail(*reader.failure());
  }
  request.priority = static_cast<int32_t>(
      fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  constexpr double longest = 86400;
  request.timeout = fields.number("timeout", 0, longest);
  request.speculate = fields.flag("speculate", true);
  request.user = fields.text("user").value_or("");
}

/// Each is a text of some ten bytes in the answer.
void boundPromptLogprobs(FieldReader &fields,
                         const GenerationRequest &request) {
  if (!request.echo || request.topLogprobs < 0)
    return;
  int64_t tokens = 0, each = 1 + request.topLogprobs;
  for (const std::vector<int32_t> &prompt : request.prompts)
    tokens += static_cast<int64_t>(prompt.size());
  if (int64_t all = tokens * each * request.choices; all > mostPromptLogprobs)
    fields.fail("logprobs", "with 'echo' asks for " + std::to_string(all) +
                                " log-probabilities of prompts; at most " +
                                std::to_string(mostPromptLogprobs) +
                                " are given");
}

/// Sets how many tokens each prompt may get, and refuses what cannot fit.
void readLengths(FieldReader &fields, const RequestContext &context,
                 std::optional<int64_t> asked, int64_t otherwise,
                 GenerationRequest &request) {
  const char *place = request.chat ? "messages" : "prompt";
  std::optional<int64_t> truncate =
      fields.integer("truncate_prompt_tokens", 1, INT32_MAX);
  int64_t context_ = context.limits.contextLength;
  for (std::vector<int32_t> &prompt : request.prompts) {
    if (prompt.empty())
      return fields.fail(place, "has no tokens");
    if (truncate && static_cast<int64_t>(prompt.size()) > *truncate)
      prompt.erase(prompt.begin(), prompt.end() - *truncate);
    auto length = static_cast<int64_t>(prompt.size());
    std::string lengths = "the prompt has " + std::to_string(length) +
                          " tokens and the context " + std::to_string(context_);
    ApiError error;
    error.param = place;
    error.code = "context_length_exceeded";
    if (length >= context_) {
      error.message = lengths + "; shorten it, or ask for "
                                "'truncate_prompt_tokens'";
      return fields.fail(std::move(error));
    }
    if (asked && length + *asked > context_) {
      error.message = lengths + "; with the " + std::to_string(*asked) +
                      " tokens that are asked for it does not fit";
      return fields.fail(std::move(error));
    }
    int64_t room = context_ - length;
    request.maxTokens.push_back(static_cast<int32_t>(
        asked.value_or(otherwise ? std::min(otherwise, room) : room)));
  }
  if (static_cast<int64_t>(request.sequences()) > mostSequences)
    fields.fail("n", "times the prompts must not exceed " +
                         std::to_string(mostSequences));
  boundPromptLogprobs(fields, request);
}

/// Here, where a long text holds up no connection.
void echoPrompts(const Tokenizer &tokenizer, GenerationRequest &request) {
  for (const std::vector<int32_t> &prompt : request.prompts) {
    EchoedPrompt &echoed = request.echoed.emplace_back();
    std::string text = tokenizer.decode(prompt, request.skipSpecialTokens);
    echoed.length = characters(text);
    echoed.quoted = JsonWriter().value(text).take();
    if (request.topLogprobs < 0)
      continue;
    Detokenizer shown(tokenizer, request.skipSpecialTokens);
    size_t offset = 0;
    for (int32_t token : prompt) {
      echoed.offsets.push_back(offset);
      offset += characters(shown.push(token));
    }
  }
}

template <typename Read>
std::optional<GenerationRequest> readWith(const std::string &body,
                                          ApiError &error, Read &&read) {
  std::optional<Json> json = parseBody(body, error);
  if (!json)
    return std::nullopt;
  FieldReader fields(*json);
  GenerationRequest request;
  read(fields, request);
  if (fields.failure()) {
    error = *fields.failure();
    return std::nullopt;
  }
  return request;
}

/// Accepts a field that has one useful value.
void checkOnly(FieldReader &fields, const char *name,
               std::initializer_list<Json> allowed, const char *what) {
  const Json *value = fields.find(name);
  if (value &&
      std::find(allowed.begin(), allowed.end(), *value) == allowed.end())
    fields.fail(name, what, "unsupported_field");
}

void readChat(FieldReader &fields, const RequestContext &context,
              GenerationRequest &request) {
  request.chat = true;
  fields.checkNames(chatFields());
  checkModel(fields, context.model);
  checkOnly(fields, "modalities", {Json::array({"text"})},
            "must be [\"text\"]");
  checkOnly(fields, "service_tier", {"auto", "default"},
            "must be \"auto\" or \"default\"");
  checkOnly(fields, "store", {false}, "must be false: nothing is stored");
  readCommon(fields, context, request);
  if (request.user.empty())
    request.user = fields.text("safety_identifier").value_or("");
  bool logprobs = fields.flag("logprobs", false);
  std::optional<int64_t> top = fields.integer("top_logprobs", 0, 20);
  if (top && !logprobs)
    fields.fail("top_logprobs", "needs 'logprobs': true");
  request.topLogprobs = logprobs ? static_cast<int32_t>(top.value_or(0)) : -1;
  std::optional<int64_t> most =
      fields.integer("max_completion_tokens", 1, INT32_MAX);
  std::optional<int64_t> older = fields.integer("max_tokens", 1, INT32_MAX);
  if (most && older && *most != *older)
    fields.fail("max_tokens", "and 'max_completion_tokens' differ");
  std::optional<Json> variables = chatVariables(fields);
  if (!variables || !fields.ok())
    return;
  ToolRequest tools = readTools(fields, context.texts);
  if (!fields.ok())
    return;
  if (!tools.rendered.empty())
    (*variables)["tools"] = tools.rendered;
  auto prompt = context.texts.encodeChat(*variables, context.stopped);
  if (!prompt) {
    fields.fail(ApiError::from(prompt.error(), "messages"));
    return;
  }
  request.prompts.push_back(std::move(prompt->tokens));
  if (fields.flag("separate_reasoning", true))
    request.answer.reasoning = context.texts.reasoningFormat();
  request.answer.state = prompt->reasoning;
  request.answer.parallel = tools.parallel;
  request.tools = tools.schemas;
  if (request.tools) {
    request.answer.format = context.texts.toolFormat();
    request.answer.tools = request.tools.get();
  }
  constrainAnswer(fields, tools, context.texts.reasoningFormat(),
                  prompt->reasoning, request.grammar);
  if (request.grammar && !context.grammars)
    fields.fail(request.grammar->place,
                "is not supported: this server compiles no grammars",
                "unsupported_field");
  readLengths(fields, context, most ? most : older, 0, request);
}

void readPrompts(FieldReader &fields, const RequestContext &context,
                 GenerationRequest &request) {
  const Json *prompt = fields.find("prompt");
  EncodeOptions options;
  options.stopped = context.stopped;
  options.addSpecialTokens = fields.flag("add_special_tokens", true);
  auto addText = [&](const std::string &text) {
    auto ids = context.texts.tokenizer().encode(text, options);
    if (ids)
      request.prompts.push_back(std::move(*ids));
    else
      fields.fail(ApiError::from(ids.error(), "prompt"));
  };
  auto addTokens = [&](const Json &list) {
    std::vector<int32_t> ids;
    for (const Json &item : list) {
      if (!item.is_number_unsigned() ||
          item.get<uint64_t>() >=
              static_cast<uint64_t>(context.limits.vocabulary)) {
        fields.fail("prompt",
                    "must hold tokens of 0 to " +
                        std::to_string(context.limits.vocabulary - 1));
        return;
      }
      ids.push_back(item.get<int32_t>());
    }
    request.prompts.push_back(std::move(ids));
  };
  const char *kinds = "must be a text, a list of texts, a list of tokens or a "
                      "list of such lists";
  if (!prompt || (!prompt->is_string() && !prompt->is_array()) ||
      (prompt->is_array() && prompt->empty())) {
    fields.fail("prompt", kinds);
    return;
  }
  if (prompt->is_string()) {
    addText(prompt->get<std::string>());
  } else if (prompt->front().is_number()) {
    addTokens(*prompt);
  } else {
    if (static_cast<int64_t>(prompt->size()) > mostSequences)
      fields.fail("prompt", "must not hold more than " +
                                std::to_string(mostSequences) + " prompts");
    for (const Json &item : *prompt) {
      if (!fields.ok())
        return;
      if (item.is_string())
        addText(item.get<std::string>());
      else if (item.is_array())
        addTokens(item);
      else
        fields.fail("prompt", kinds);
    }
  }
}

void readCompletion(FieldReader &fields, const RequestContext &context,
                    GenerationRequest &request) {
  fields.checkNames(completionFields());
  checkModel(fields, context.model);
  readCommon(fields, context, request);
  request.echo = fields.flag("echo", false);
  if (request.grammar && !context.grammars)
    fields.fail(request.grammar->place,
                "is not supported: this server compiles no grammars",
                "unsupported_field");
  if (std::optional<int64_t> best = fields.integer("best_of", 1, mostSequences);
      best && *best != request.choices)
    fields.fail("best_of", "must equal 'n': no choice is dropped",
                "unsupported_field");
  // A number of alternatives; a flag is the chat's form.
  const Json *logprobs = fields.find("logprobs");
  if (logprobs && logprobs->is_boolean())
    request.topLogprobs = logprobs->get<bool>() ? 0 : -1;
  else
    request.topLogprobs =
        static_cast<int32_t>(fields.integer("logprobs", 0, 20).value_or(-1));
  std::optional<int64_t> most =
      fields.integer("max_tokens", request.echo ? 0 : 1, INT32_MAX);
  readPrompts(fields, context, request);
  if (fields.ok())
    readLengths(fields, context, most, 16, request);
  if (fields.ok() && request.echo)
    echoPrompts(context.texts.tokenizer(), request);
}

} // namespace

std::optional<GenerationRequest> readChatRequest(const std::string &body,
                                                 const RequestContext &context,
                                                 ApiError &error) {
  return readWith(body, error, [&](FieldReader &fields, auto &request) {
    readChat(fields, context, request);
  });
}

std::optional<GenerationRequest>
readCompletionRequest(const std::string &body, const RequestContext &context,
                      ApiError &error) {
  return readWith(body, error, [&](FieldReader &fields, auto &request) {
    readCompletion(fields, context, request);
  });
}

} // namespace knapper::serving
