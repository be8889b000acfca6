#include "serving/http/Generation.h"

#include "runtime/base/Printable.h"
#include "serving/http/DrawnBits.h"
#include "serving/http/StructuredOutput.h"
#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>

namespace knapper::serving {
namespace {

std::string makeId(bool chat) {
  char text[48];
  snprintf(text, sizeof(text), "%s-%016" PRIx64 "%08" PRIx32,
           chat ? "chatcmpl" : "cmpl", drawnBits(),
           static_cast<uint32_t>(drawnBits()));
  return text;
}

double secondsSince(ServerMetrics::Clock::time_point start) {
  return std::chrono::duration<double>(ServerMetrics::Clock::now() - start)
      .count();
}

/// Of a request: what it asks for, or what the server allows.
ServerMetrics::Clock::time_point
deadlineOf(ServerMetrics::Clock::time_point arrived,
           std::optional<double> timeout, double longest) {
  if (longest > 0)
    timeout = std::min(timeout.value_or(longest), longest);
  if (!timeout)
    return ServerMetrics::Clock::time_point::max();
  return arrived + std::chrono::duration_cast<ServerMetrics::Clock::duration>(
                       std::chrono::duration<double>(*timeout));
}

} // namespace

Generation::Generation(const Environment &environment,
                       std::shared_ptr<HttpExchange> exchange,
                       GenerationRequest given,
                       ServerMetrics::Clock::time_point arrived)
    : environment(environment), exchange(std::move(exchange)),
      request(std::move(given)), id(makeId(request.chat)),
      created(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      arrived(arrived), active(std::in_place, environment.metrics) {
  for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt)
    for (int32_t i = 0; i < request.choices; ++i)
      choices.emplace_back(environment.texts.tokenizer(), request).prompt =
          prompt;
  if (wantsPromptLogprobs())
    scored.resize(request.prompts.size());
  for (Choice &choice : choices) {
    if (!request.chat) // an answer of a chat is a text of its own
      choice.stream.follow(request.prompts[choice.prompt]);
    if (request.echo)
      choice.length = request.echoed[choice.prompt].length;
  }
}

void Generation::start() {
  exchange->onClosed = [self = shared_from_this()] {
    ++self->environment.metrics.clientsGone;
    self->over = true;
    self->cancelAll();
    self->finishAnswer(false);
  };
  unfinished = choices.size();
  if (!request.grammar) {
    submit(nullptr);
    return;
  }
  if (auto grammar = environment.grammars->find(*request.grammar)) {
    submit(std::move(grammar));
    return;
  }
  Status taken = environment.grammars->compile(
      *request.grammar,
      [self = shared_from_this()](const GrammarCompiler::Made &made) {
        self->exchange->postSoon([self, made] {
          if (self->over)
            return;
          if (made)
            self->submit(*made);
          else
            self->abort(
                grammarError(made.error(), self->request.grammar->place));
        });
      });
  if (!taken)
    abort(grammarError(taken.error(), request.grammar->place));
}

void Generation::submit(std::shared_ptr<const TokenGrammar> grammar) {
  auto deadline = deadlineOf(arrived, request.timeout, environment.longest);
  for (size_t i = 0; i < choices.size(); ++i) {
    Choice &choice = choices[i];
    Request sequence;
    sequence.grammar = grammar;
    sequence.prompt = request.prompts[choice.prompt];
    sequence.sampling = request.sampling;
    // Choices of one prompt differ; those of equal prompts need not.
    size_t ofPrompt = i % static_cast<size_t>(request.choices);
    sequence.sampling.seed += ofPrompt;
    sequence.maxTokens = std::max(request.maxTokens[choice.prompt], 1);
    sequence.stopTokens = request.stopTokens;
    sequence.ignoreEos = request.ignoreEos;
    sequence.topLogprobs = request.topLogprobs;
    sequence.promptLogprobs = wantsPromptLogprobs() && ofPrompt == 0;
    sequence.priority = request.priority;
    sequence.speculate = request.speculate;
    sequence.salt = request.salt;
    sequence.deadline = deadline;
    auto number = environment.engine.submit(
        std::move(sequence), [self = shared_from_this(), i](Event event) {
          self->receive(i, std::move(event));
        });
    if (!number) {
      abort(
          ApiError::from(number.error(), request.chat ? "messages" : "prompt"));
      return;
    }
    choice.number = *number;
  }
}

void Generation::receive(size_t choice, Event event) {
  std::lock_guard lock(mutex);
  try {
    queue.emplace_back(choice, std::move(event));
  } catch (const std::bad_alloc &) {
    lost = true; // the answer ends with an error
  }
  if (scheduled)
    return;
  try {
    auto drained = [self = shared_from_this()] { self->drain(); };
    // The end of a whole answer renders all of it.
    if (request.stream)
      exchange->postBrief(std::move(drained));
    else
      exchange->post(std::move(drained));
    scheduled = true;
  } catch (const std::bad_alloc &) { // with the next event
    lost = true;
  }
}

void Generation::drain() {
  {
    std::lock_guard lock(mutex);
    std::swap(taken, queue);
    scheduled = false;
    if (lost && !over) {
      ApiError error = ApiError::from(
          deviceError("out of memory", "the server", "fewer requests at once"));
      exchange->post(
          [self = shared_from_this(), error] { self->abort(error); });
    }
  }
  for (auto &[index, event] : taken)
    if (!over)
      take(choices[index], std::move(event));
  taken.clear(); // and keeps its memory for the next
  if (over)
    return;
  if (request.stream)
    sendChunks();
  else if (unfinished == 0 && !writing)
    sendWhole();
}

void Generation::take(Choice &choice, Event event) {
  if (choice.finish != FinishReason::none)
    return;
  choice.cached = std::max(choice.cached, event.cachedTokens);
  if (wantsPromptLogprobs() && isFirst(choice) &&
      !std::exchange(scored[choice.prompt].known, true))
    scored[choice.prompt].tokens = std::move(event.prompt);
  auto now = ServerMetrics::Clock::now();
  if (!event.tokens.empty()) {
    if (firstToken == ServerMetrics::Clock::time_point{}) {
      firstToken = now;
      environment.metrics.firstToken.add(secondsSince(arrived));
    } else if (choice.tokens > 0) {
      environment.metrics.betweenTokens.add(
          std::chrono::duration<double>(now - choice.latest).count());
    }
    choice.latest = now;
  }
  if (request.maxTokens[choice.prompt] > 0)
    for (Token &token : event.tokens)
      if (!choice.stops.hit() && !(choice.parser && choice.parser->enough()))
        takeToken(choice, std::move(token));
  FinishReason finish = event.finish;
  if (choice.stops.hit() || (choice.parser && choice.parser->enough())) {
    if (finish == FinishReason::none)
      environment.engine.cancel(choice.number);
    finish = FinishReason::stop;
  }
  if (finish == FinishReason::none)
    return;
  if (finish == FinishReason::error || finish == FinishReason::cancelled) {
    abort(finish == FinishReason::error
              ? ApiError::from(*event.error)
              : ApiError::from(
                    userError("the server is shutting down", "draining")));
    return;
  }
  if (choice.stops.hit()) {
    if (request.includeStop)
      takeText(choice, choice.stops.stop());
  } else {
    takeText(choice, choice.stops.push(choice.stream.finish()));
    takeText(choice, choice.stops.finish());
    if (choice.stops.hit())
      finish = FinishReason::stop;
  }
  if (choice.parser) {
    std::vector<AnswerPiece> pieces;
    choice.parser->finish(pieces);
    takePieces(choice, std::move(pieces));
  }
  choice.finish = finish;
  --unfinished;
}

void Generation::takeToken(Choice &choice, Token token) {
  ++choice.tokens;
  std::string text = choice.stream.push(token.id);
  if (choice.parser && request.skipSpecialTokens) {
    // Marks of calls and reasoning are control tokens in some vocabularies.
    const std::vector<int32_t> &marks = environment.texts.markTokens();
    if (std::find(marks.begin(), marks.end(), token.id) != marks.end())
      text += environment.texts.tokenizer().tokenText(token.id);
  }
  if (request.topLogprobs >= 0)
    choice.records.push_back({std::move(token), choice.length});
  choice.length += characters(text);
  if (choice.stops.any())
    text = choice.stops.push(text);
  takeText(choice, text);
}

void Generation::takeText(Choice &choice, const std::string &text) {
  if (!choice.parser) {
    choice.text += text;
    return;
  }
  std::vector<AnswerPiece> pieces;
  choice.parser->push(text, pieces);
  takePieces(choice, std::move(pieces));
}

void Generation::takePieces(Choice &choice, std::vector<AnswerPiece> pieces) {
  using Kind = AnswerPiece::Kind;
  for (AnswerPiece &piece : pieces)
    switch (piece.kind) {
    case Kind::content:
      choice.text += piece.text;
      break;
    case Kind::reasoning:
      choice.reasoning += piece.text;
      break;
    case Kind::callBegin:
      choice.calls.push_back({callId(), std::move(piece.text), {}});
      break;
    case Kind::callArguments:
      choice.calls.back().arguments += piece.text;
      break;
    case Kind::callEnd:
      choice.calls.back().complete = true;
      break;
    case Kind::callBroken:
      // What a stream has told stays told.
      if (!choice.calls.back().sent)
        choice.calls.pop_back();
      break;
    }
}

std::string Generation::callId() const {
  constexpr char letters[] =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const ToolFormat &format = *request.answer.format;
  constexpr int shortest = 16; // than which none is marked as ours
  std::string made = format.idLength < shortest ? "" : "call_";
  for (int i = 0; i < format.idLength; ++i)
    made += letters[drawnBits() % (sizeof(letters) - 1)];
  return made;
}

std::string Generation::bytesOf(int32_t token) const {
  const Tokenizer &tokenizer = environment.texts.tokenizer();
  return tokenizer.decoder().part(tokenizer.tokenText(token), false).text;
}

void Generation::abort(ApiError error) {
  if (over)
    return;
  over = true;
  cancelAll();
  fail(error);
  finishAnswer(false);
}

void Generation::abortLater() {
  exchange->post([self = shared_from_this()] {
    self->abort(
        ApiError::from(userError("the server is shutting down", "draining")));
  });
}

void Generation::fail(const ApiError &error) {
  if (begun) { // the status is gone
    exchange->write("data: " + error.json() + "\n\n");
    exchange->end();
    return;
  }
  HttpHeaders headers;
  if (error.retryAfter)
    headers.push_back({"Retry-After", std::to_string(error.retryAfter)});
  environment.metrics.countResponse(
      request.chat ? "/v1/chat/completions" : "/v1/completions", error.status);
  exchange->respond(error.status, "application/json", error.json(), headers);
}

void Generation::cancelAll() {
  for (Choice &choice : choices)
    if (choice.number != 0 && choice.finish == FinishReason::none)
      environment.engine.cancel(choice.number);
}

void Generation::finishAnswer(bool whole) {
  ServerMetrics &metrics = environment.metrics;
  active.reset();
  metrics.wholeRequest.add(secondsSince(arrived));
  int64_t prompt = 0, completion = 0;
  for (const std::vector<int32_t> &one : request.prompts)
    prompt += static_cast<int64_t>(one.size());
  for (const Choice &choice : choices)
    completion += choice.tokens;
  metrics.promptTokens += static_cast<uint64_t>(prompt);
  metrics.completionTokens += static_cast<uint64_t>(completion);
  whole = whole && exchange->isOpen();
  if (whole)
    metrics.countResponse(
        request.chat ? "/v1/chat/completions" : "/v1/completions", 200);
  if (environment.log) {
    std::string user = request.user.substr(0, 64);
    user.resize(user.size() - unfinishedUtf8(user));
    char times[96];
    bool any = firstToken != ServerMetrics::Clock::time_point{};
    snprintf(times, sizeof(times), "first=%.4fs all=%.4fs",
             any ? std::chrono::duration<double>(firstToken - arrived).count()
                 : 0.0,
             secondsSince(arrived));
    environment.log(id + " prompt=" + std::to_string(prompt) +
                    " completion=" + std::to_string(completion) + " " + times +
                    " end=" + (whole ? reasonOf(choices.back()) : "early") +
                    (user.empty() ? user : " user=" + printable(user)));
  }
  exchange->onClosed = nullptr;
  exchange->onTaken = nullptr;
}

} // namespace knapper::serving
