// How an answer is written: whole as one JSON object, or in chunks of an event
// stream. Generation.cpp has what leads there.
#include "serving/http/Generation.h"

#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <map>

namespace knapper::serving {

const char *Generation::reasonOf(const Choice &choice) {
  if (choice.finish != FinishReason::stop)
    return "length";
  return choice.parser && choice.parser->calls > 0 ? "tool_calls" : "stop";
}

void Generation::writeHead(JsonWriter &writer, const char *object) const {
  writer.beginObject()
      .field("id", id)
      .field("object", object)
      .field("created", created)
      .field("model", environment.model);
}

void Generation::writeUsage(JsonWriter &writer) const {
  int64_t prompt = 0, completion = 0, cached = 0;
  for (const std::vector<int32_t> &one : request.prompts)
    prompt += static_cast<int64_t>(one.size());
  for (const Choice &choice : choices) {
    completion += choice.tokens;
    cached += choice.cached;
  }
  writer.key("usage").beginObject();
  writer.field("prompt_tokens", prompt)
      .field("completion_tokens", completion)
      .field("total_tokens", prompt + completion);
  writer.key("prompt_tokens_details")
      .beginObject()
      .field("cached_tokens", cached)
      .endObject();
  writer.endObject();
}

void Generation::writeLogprobs(JsonWriter &writer,
                               const std::vector<TokenRecord> &records) const {
  writer.key("logprobs");
  if (request.topLogprobs < 0 || (request.stream && records.empty())) {
    writer.null();
    return;
  }
  auto shown = [](const std::string &bytes) {
    return replaceInvalidUtf8(bytes);
  };
  writer.beginObject();
  if (request.chat) {
    auto entry = [&](const std::string &bytes, float logprob) {
      writer.beginObject().field("token", shown(bytes));
      writer.field("logprob", static_cast<double>(logprob));
      writer.key("bytes").beginArray();
      for (char byte : bytes)
        writer.value(int32_t(static_cast<unsigned char>(byte)));
      writer.endArray();
    };
    writer.key("content").beginArray();
    for (const TokenRecord &record : records) {
      entry(record.bytes, record.logprob);
      writer.key("top_logprobs").beginArray();
      for (const auto &[bytes, logprob] : record.top) {
        entry(bytes, logprob);
        writer.endObject();
      }
      writer.endArray().endObject();
    }
    writer.endArray().key("refusal").null().endObject();
    return;
  }
  writer.key("tokens").beginArray();
  for (const TokenRecord &record : records)
    writer.value(shown(record.bytes));
  writer.endArray().key("token_logprobs").beginArray();
  for (const TokenRecord &record : records)
    if (record.hasLogprob)
      writer.value(static_cast<double>(record.logprob));
    else
      writer.null();
  writer.endArray().key("top_logprobs").beginArray();
  for (const TokenRecord &record : records) {
    if (!record.hasLogprob) {
      writer.null();
      continue;
    }
    writer.beginObject();
    std::map<std::string, float> top; // two tokens may be shown alike
    top.emplace(shown(record.bytes), record.logprob);
    for (const auto &[bytes, logprob] : record.top)
      top.emplace(shown(bytes), logprob);
    for (const auto &[text, logprob] : top)
      writer.field(text, static_cast<double>(logprob));
    writer.endObject();
  }
  writer.endArray().key("text_offset").beginArray();
  for (const TokenRecord &record : records)
    writer.value(static_cast<uint64_t>(record.offset));
  writer.endArray().endObject();
}

void Generation::sendWhole() {
  JsonWriter writer;
  writeHead(writer, request.chat ? "chat.completion" : "text_completion");
  writer.key("choices").beginArray();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice &choice = choices[i];
    writer.beginObject().field("index", static_cast<uint64_t>(i));
    if (request.chat)
      writeMessage(writer, choice);
    else
      writer.field("text", choice.text);
    writeLogprobs(writer, choice.records);
    writer.field("finish_reason", reasonOf(choice)).endObject();
  }
  writer.endArray();
  writeUsage(writer);
  std::string body = writer.endObject().take();
  over = true;
  exchange->respond(200, "application/json", std::move(body));
  finishAnswer();
}

void Generation::writeMessage(JsonWriter &writer, const Choice &choice) const {
  writer.key("message").beginObject().field("role", "assistant");
  if (choice.text.empty() && !choice.calls.empty())
    writer.key("content").null();
  else
    writer.field("content", choice.text);
  writer.key("refusal").null();
  if (!choice.reasoning.empty())
    writer.field("reasoning_content", choice.reasoning);
  if (!choice.calls.empty()) {
    writer.key("tool_calls").beginArray();
    for (const ToolCall &call : choice.calls) {
      writer.beginObject().field("id", call.id).field("type", "function");
      writer.key("function")
          .beginObject()
          .field("name", call.name)
          .field("arguments", call.arguments)
          .endObject()
          .endObject();
    }
    writer.endArray();
  }
  writer.endObject();
}

/// What is new since the chunk before.
void Generation::writeDelta(JsonWriter &writer, Choice &choice) const {
  writer.key("delta").beginObject();
  if (!choice.reasoning.empty())
    writer.field("reasoning_content", choice.reasoning);
  if (!choice.text.empty())
    writer.field("content", choice.text);
  choice.reasoning.clear();
  choice.text.clear();
  bool any = false;
  for (size_t i = choice.sentCalls; i < choice.calls.size(); ++i) {
    ToolCall &call = choice.calls[i];
    if (call.sent && call.arguments.empty())
      continue;
    if (!any)
      writer.key("tool_calls").beginArray();
    any = true;
    writer.beginObject().field("index", static_cast<uint64_t>(i));
    if (!call.sent)
      writer.field("id", call.id).field("type", "function");
    writer.key("function").beginObject();
    if (!call.sent)
      writer.field("name", call.name);
    writer.field("arguments", call.arguments).endObject().endObject();
    call.sent = true;
    call.arguments.clear();
  }
  while (choice.sentCalls < choice.calls.size() &&
         choice.calls[choice.sentCalls].complete)
    ++choice.sentCalls;
  if (any)
    writer.endArray();
  writer.endObject();
}

void Generation::sendChunks() {
  if (!begun) {
    begun = true;
    JsonWriter writer;
    writeHead(writer,
              request.chat ? "chat.completion.chunk" : "text_completion");
    chunkHead = "data: " + writer.take() + ",\"choices\":[";
    chunkEnd = request.includeUsage ? "],\"usage\":null}\n\n" : "]}\n\n";
    exchange->begin("text/event-stream; charset=utf-8");
    for (size_t i = 0; request.chat && i < choices.size(); ++i)
      exchange->write(chunkHead + "{\"index\":" + std::to_string(i) +
                      ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                      "\"logprobs\":null,\"finish_reason\":null}" +
                      chunkEnd);
  }
  for (size_t i = 0; i < choices.size(); ++i)
    sendChunk(i, choices[i]);
  if (unfinished > 0 || over)
    return;
  if (request.includeUsage) {
    JsonWriter writer;
    writer.beginObject();
    writeUsage(writer);
    std::string usage = writer.take();
    exchange->write(chunkHead + "]," + usage.substr(1) + "}\n\n");
  }
  over = true;
  exchange->write("data: [DONE]\n\n");
  exchange->end();
  finishAnswer();
}

void Generation::sendChunk(size_t index, Choice &choice) {
  bool ends = choice.finish != FinishReason::none && !choice.reported;
  bool calls =
      std::any_of(choice.calls.begin() + static_cast<long>(choice.sentCalls),
                  choice.calls.end(), [](const ToolCall &call) {
                    return !call.sent || !call.arguments.empty();
                  });
  if (choice.text.empty() && choice.reasoning.empty() && !calls && !ends)
    return;
  if (choice.reasoning.empty() && !calls && !ends && request.topLogprobs < 0) {
    sendText(index, choice);
    return;
  }
  JsonWriter writer;
  writer.beginObject().field("index", static_cast<uint64_t>(index));
  if (!request.chat)
    writer.field("text", choice.text);
  else
    writeDelta(writer, choice);
  writeLogprobs(writer, choice.records);
  writer.key("finish_reason");
  if (ends)
    writer.value(reasonOf(choice));
  else
    writer.null();
  writer.endObject();
  choice.reported |= ends;
  choice.text.clear();
  choice.records.clear();
  exchange->write(chunkHead + writer.text() + chunkEnd);
}

/// What most events are: text and nothing else. Only it is rendered.
void Generation::sendText(size_t index, Choice &choice) {
  JsonWriter text;
  text.value(choice.text);
  choice.text.clear();
  line.assign(chunkHead).append("{\"index\":").append(std::to_string(index));
  line.append(request.chat ? ",\"delta\":{\"content\":" : ",\"text\":");
  line.append(text.text()).append(request.chat ? "}" : "");
  line.append(",\"logprobs\":null,\"finish_reason\":null}").append(chunkEnd);
  exchange->write(line);
}

} // namespace knapper::serving
