// The fields that requests for text may have, and why others are refused.
#include "serving/http/GenerationRequest.h"

namespace knapper::serving {

namespace {

// Fields of both requests, behind their own.
const std::vector<FieldRow> commonFields = {
    {"model", {}},
    {"max_tokens", {}},
    {"temperature", {}},
    {"top_p", {}},
    {"top_k", {}},
    {"min_p", {}},
    {"frequency_penalty", {}},
    {"presence_penalty", {}},
    {"repetition_penalty", {}},
    {"logit_bias", {}},
    {"seed", {}},
    {"n", {}},
    {"stop", {}},
    {"stop_token_ids", {}},
    {"include_stop_str_in_output", {}},
    {"ignore_eos", {}},
    {"skip_special_tokens", {}},
    {"stream", {}},
    {"stream_options", {}},
    {"logprobs", {}},
    {"priority", {}},
    {"timeout", {}},
    {"speculate", {}},
    {"truncate_prompt_tokens", {}},
    {"user", {}},
    {"response_format", {}},
    {"structured_outputs", {}},
    {"guided_json", {}},
    {"guided_regex", {}},
    {"guided_choice", {}},
    {"guided_grammar", {}},
};

std::vector<FieldRow> withCommon(std::vector<FieldRow> rows) {
  rows.insert(rows.end(), commonFields.begin(), commonFields.end());
  return rows;
}

std::vector<FieldRow> makeChatFields() {
  return withCommon({
      {"messages", {}},
      {"max_completion_tokens", {}},
      {"top_logprobs", {}},
      {"add_generation_prompt", {}},
      {"chat_template_kwargs", {}},
      {"documents", {}},
      {"reasoning_effort", {}},
      {"safety_identifier", {}},
      {"modalities", {}},
      {"service_tier", {}},
      {"store", {}},
      {"tool_choice", {}},
      {"tools", {}},
      {"parallel_tool_calls", {}},
      {"separate_reasoning", {}},
      {"functions", "it is an older form of 'tools'"},
      {"function_call", "it is an older form of 'tool_choice'"},
      {"audio", "models of text only are served"},
      {"prediction", "no predicted text is used"},
      {"web_search_options", "there is no web search"},
      {"metadata", "nothing is stored"},
      {"prompt_cache_key", "the prefix cache needs no key"},
      {"prompt_cache_retention", "the prefix cache keeps what fits"},
      {"verbosity", "no model reads it"},
      {"moderation", "there is no moderation"},
  });
}

std::vector<FieldRow> makeCompletionFields() {
  return withCommon({
      {"prompt", {}},
      {"echo", {}},
      {"best_of", {}},
      {"add_special_tokens", {}},
      {"suffix", "no model that fills in is served"},
  });
}

} // namespace

const std::vector<FieldRow> &chatFields() {
  static const std::vector<FieldRow> rows = makeChatFields();
  return rows;
}
const std::vector<FieldRow> &completionFields() {
  static const std::vector<FieldRow> rows = makeCompletionFields();
  return rows;
}
const std::vector<FieldRow> &messageFields() {
  static const std::vector<FieldRow> rows = {
      {"role", {}},
      {"content", {}},
      {"name", {}},
      {"tool_calls", {}},
      {"tool_call_id", {}},
      {"reasoning_content", {}},
      {"reasoning", {}},
      {"annotations", {}},
      {"refusal", {}},
      {"audio", "models of text only are served"},
      {"function_call", "it is an older form of 'tool_calls'"}};
  return rows;
}

} // namespace knapper::serving
