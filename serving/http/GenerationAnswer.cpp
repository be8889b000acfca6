// How an answer is written: whole as one JSON object, or in chunks of an event
// stream. Generation.cpp has what leads there.
#include "serving/http/Generation.h"

#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <map>

namespace knapper::serving {

const char *Generation::reasonOf(const Choice &choice) const {
  // The engine draws a token all the same.
  bool scores = request.maxTokens[choice.prompt] == 0;
  if (choice.finish != FinishReason::stop || scores)
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

std::string Generation::unsentText(const Choice &choice) const {
  std::string text = JsonWriter().value(choice.text).take();
  if (!request.echo || choice.echoed)
    return text;
  const std::string &prompt = request.echoed[choice.prompt].quoted;
  std::string joined;
  joined.reserve(prompt.size() + text.size() - 2);
  // Without the quotation marks between them.
  return joined.append(prompt, 0, prompt.size() - 1).append(text, 1);
}

Generation::LogprobLists
Generation::listsOf(const std::vector<TokenRecord> &records) const {
  auto list = [&](auto &&write) {
    JsonWriter writer;
    writer.beginArray();
    for (const TokenRecord &record : records)
      write(writer, record);
    std::string text = writer.endArray().take();
    return text.substr(1, text.size() - 2);
  };
  auto shown = [this](int32_t id) { return replaceInvalidUtf8(bytesOf(id)); };
  LogprobLists lists;
  lists.tokens = list([&](JsonWriter &writer, const TokenRecord &record) {
    writer.value(shown(record.token.id));
  });
  lists.logprobs = list([](JsonWriter &writer, const TokenRecord &record) {
    if (record.hasLogprob)
      writer.value(static_cast<double>(record.token.logprob));
    else
      writer.null();
  });
  lists.top = list([&](JsonWriter &writer, const TokenRecord &record) {
    if (!record.hasLogprob) {
      writer.null();
      return;
    }
    std::map<std::string, float> top; // two tokens may be shown alike
    top.emplace(shown(record.token.id), record.token.logprob);
    for (const TokenLogprob &other : record.token.top)
      top.emplace(shown(other.token), other.logprob);
    writer.beginObject();
    for (const auto &[text, logprob] : top)
      writer.field(text, static_cast<double>(logprob));
    writer.endObject();
  });
  lists.offsets = list([](JsonWriter &writer, const TokenRecord &record) {
    writer.value(static_cast<uint64_t>(record.offset));
  });
  return lists;
}

void Generation::writePrompt(size_t index) {
  ScoredPrompt &prompt = scored[index];
  const std::vector<size_t> &offsets = request.echoed[index].offsets;
  std::vector<TokenRecord> records;
  records.reserve(1 + prompt.tokens.size());
  records.push_back({{request.prompts[index].front(), 0, {}}, 0, false});
  for (Token &token : prompt.tokens)
    records.push_back({std::move(token), offsets[records.size()]});
  prompt.tokens = {};
  prompt.lists = listsOf(records);
}

void Generation::preparePrompts() {
  for (size_t i = 0; i < scored.size(); ++i) {
    ScoredPrompt &prompt = scored[i];
    if (!prompt.known || prompt.asked)
      continue;
    prompt.asked = environment.longWork && request.stream &&
                   logprobBytes(prompt.tokens.size()) > LongWork::brief &&
                   environment.longWork->addAnswer(
                       [self = shared_from_this(), i](bool unwanted) {
                         self->writeLongPrompt(i, unwanted);
                       });
    if (prompt.asked)
      continue;
    writePrompt(i);
    prompt.asked = prompt.written = true;
  }
}

void Generation::writeLongPrompt(size_t prompt, bool unwanted) {
  bool good = false;
  try {
    if (!unwanted && !over) {
      writePrompt(prompt);
      good = true;
    }
  } catch (const std::exception &) { // no memory
  }
  exchange->postSurely([self = shared_from_this(), prompt, unwanted, good] {
    if (self->over)
      return;
    self->scored[prompt].written = good;
    if (good)
      self->sendChunks();
    else
      self->abort(unwritten(unwanted));
  });
}

ApiError Generation::unwritten(bool unwanted) {
  return ApiError::from(
      unwanted ? userError("the server is shutting down", "draining")
               : deviceError("out of memory", "the server",
                             "fewer requests at once"));
}

void Generation::writeLogprobs(JsonWriter &writer, const Choice &choice) const {
  writer.key("logprobs");
  bool prompt = wantsPromptLogprobs() && !choice.echoed;
  if (request.topLogprobs < 0 ||
      (request.stream && choice.records.empty() && !prompt)) {
    writer.null();
    return;
  }
  if (request.chat) {
    writeChatLogprobs(writer, choice);
    return;
  }
  LogprobLists own = listsOf(choice.records);
  writer.beginObject();
  auto list = [&](const char *name, std::string LogprobLists::*part) {
    std::string text = "[";
    if (prompt)
      text += scored[choice.prompt].lists.*part;
    if (prompt && !choice.records.empty())
      text += ',';
    writer.key(name).raw(text.append(own.*part).append("]"));
  };
  list("tokens", &LogprobLists::tokens);
  list("token_logprobs", &LogprobLists::logprobs);
  list("top_logprobs", &LogprobLists::top);
  list("text_offset", &LogprobLists::offsets);
  writer.endObject();
}

void Generation::writeChatLogprobs(JsonWriter &writer,
                                   const Choice &choice) const {
  auto entry = [&](int32_t id, float logprob) {
    std::string bytes = bytesOf(id);
    writer.beginObject().field("token", replaceInvalidUtf8(bytes));
    writer.field("logprob", static_cast<double>(logprob));
    writer.key("bytes").beginArray();
    for (char byte : bytes)
      writer.value(int32_t(static_cast<unsigned char>(byte)));
    writer.endArray();
  };
  writer.beginObject().key("content").beginArray();
  for (const TokenRecord &record : choice.records) {
    entry(record.token.id, record.token.logprob);
    writer.key("top_logprobs").beginArray();
    for (const TokenLogprob &other : record.token.top) {
      entry(other.token, other.logprob);
      writer.endObject();
    }
    writer.endArray().endObject();
  }
  writer.endArray().key("refusal").null().endObject();
}

size_t Generation::answerBytes() const {
  size_t all = 0;
  for (const Choice &choice : choices) {
    all += choice.text.size() + choice.reasoning.size();
    all += logprobBytes(choice.records.size());
    for (const ToolCall &call : choice.calls)
      all += call.name.size() + call.arguments.size();
    if (request.echo)
      all += request.echoed[choice.prompt].quoted.size();
    if (wantsPromptLogprobs())
      all += logprobBytes(1 + scored[choice.prompt].tokens.size());
  }
  return all;
}

void Generation::sendWhole() {
  if (environment.longWork && answerBytes() > LongWork::brief) {
    writing = environment.longWork->addAnswer(
        [self = shared_from_this()](bool unwanted) {
          self->writeLong(unwanted);
        });
    if (writing)
      return;
  }
  preparePrompts();
  respondWhole(wholeAnswer());
}

std::string Generation::wholeAnswer() const {
  JsonWriter writer;
  writeHead(writer, request.chat ? "chat.completion" : "text_completion");
  writer.key("choices").beginArray();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice &choice = choices[i];
    writer.beginObject().field("index", static_cast<uint64_t>(i));
    if (request.chat)
      writeMessage(writer, choice);
    else
      writer.key("text").raw(unsentText(choice));
    writeLogprobs(writer, choice);
    writer.field("finish_reason", reasonOf(choice)).endObject();
  }
  writer.endArray();
  writeUsage(writer);
  return writer.endObject().take();
}

void Generation::writeLong(bool unwanted) {
  try {
    if (!unwanted && !over) {
      for (size_t i = 0; i < scored.size(); ++i)
        writePrompt(i);
      body = wholeAnswer();
    }
  } catch (const std::exception &) { // no memory: it stays empty
  }
  for (Choice &choice :
       choices) { // they end here, not on the exchange's thread
    choice.records = {};
    choice.calls = {};
  }
  scored.clear();
  exchange->postSurely([self = shared_from_this(), unwanted] {
    if (self->over)
      return;
    if (!self->body.empty())
      self->respondWhole(std::move(self->body));
    else
      self->abort(unwritten(unwanted));
  });
}

void Generation::respondWhole(std::string text) {
  over = true;
  exchange->respond(200, "application/json", std::move(text));
  finishAnswer(true);
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
  preparePrompts();
  for (size_t i = 0; i < choices.size() && !paced && !over; ++i)
    sendChunk(i, choices[i]);
  if (over || paced ||
      !std::all_of(choices.begin(), choices.end(),
                   [](const Choice &one) { return one.reported; }))
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
  finishAnswer(true);
}

void Generation::pace() {
  constexpr size_t most = 1 << 20; // more than a connection holds back
  if (over || exchange->unsent() <= most)
    return;
  paced = true;
  exchange->onTaken = [self = shared_from_this()] {
    self->paced = false;
    if (!self->over)
      self->sendChunks();
  };
}

void Generation::sendChunk(size_t index, Choice &choice) {
  bool ends = choice.finish != FinishReason::none && !choice.reported;
  bool calls =
      std::any_of(choice.calls.begin() + static_cast<long>(choice.sentCalls),
                  choice.calls.end(), [](const ToolCall &call) {
                    return !call.sent || !call.arguments.empty();
                  });
  bool echoes = request.echo && !choice.echoed;
  if (choice.text.empty() && choice.reasoning.empty() && !calls && !ends &&
      !echoes)
    return;
  // The prompt's come with the first choice's first token.
  if (echoes && wantsPromptLogprobs() && !scored[choice.prompt].written)
    return;
  if (choice.reasoning.empty() && !calls && !ends && request.topLogprobs < 0) {
    sendText(index, choice);
    return;
  }
  JsonWriter writer;
  writer.beginObject().field("index", static_cast<uint64_t>(index));
  if (!request.chat)
    writer.key("text").raw(unsentText(choice));
  else
    writeDelta(writer, choice);
  writeLogprobs(writer, choice);
  writer.key("finish_reason");
  if (ends)
    writer.value(reasonOf(choice));
  else
    writer.null();
  writer.endObject();
  choice.reported |= ends;
  choice.echoed = true;
  choice.text.clear();
  choice.records.clear();
  exchange->write(chunkHead + writer.text() + chunkEnd);
  if (echoes)
    pace();
}

/// What most events are: text and nothing else. Only it is rendered.
void Generation::sendText(size_t index, Choice &choice) {
  bool echoes = request.echo && !choice.echoed;
  std::string text = unsentText(choice);
  choice.echoed = true;
  choice.text.clear();
  line.assign(chunkHead).append("{\"index\":").append(std::to_string(index));
  line.append(request.chat ? ",\"delta\":{\"content\":" : ",\"text\":");
  line.append(text).append(request.chat ? "}" : "");
  line.append(",\"logprobs\":null,\"finish_reason\":null}").append(chunkEnd);
  exchange->write(line);
  if (echoes)
    pace();
}

} // namespace knapper::serving
