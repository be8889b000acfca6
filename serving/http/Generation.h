// One request for text while it is answered: tokens of the engine become text,
// text becomes a body or a stream of events.
#pragma once

#include "runtime/base/Json.h"
#include "serving/grammar/GrammarCompiler.h"
#include "serving/http/GenerationRequest.h"
#include "serving/http/HttpExchange.h"
#include "serving/http/LongWork.h"
#include "serving/http/ServerMetrics.h"
#include "serving/http/StopStrings.h"
#include "serving/tokenizer/Detokenizer.h"

#include <atomic>
#include <mutex>

namespace knapper::serving {

/// Shared by the exchange and the engine's sinks. All but `receive`, and what
/// is said to be on a thread for long texts, happens on the exchange's thread
/// of execution.
class Generation : public std::enable_shared_from_this<Generation> {
public:
  /// What outlives every generation.
  struct Environment {
    Engine &engine;
    const ModelTexts &texts;
    ServerMetrics &metrics;
    const std::string &model;
    /// Called at the end of each: a line for the log.
    std::function<void(const std::string &)> log;
    GrammarCompiler *grammars; ///< null: no request asks for one
    double longest = 0;        ///< seconds of a request; 0: as long as it takes
    LongWork *longWork; ///< writes long answers; null: the exchange's thread
  };

  Generation(const Environment &environment,
             std::shared_ptr<HttpExchange> exchange, GenerationRequest request,
             ServerMetrics::Clock::time_point arrived);

  /// Submits all sequences, once their grammar is there; answers with an error
  /// where one is refused.
  void start();
  /// Ends it early: the answer, or an event of the stream, says why.
  void abort(ApiError error);
  /// The same from any thread, because the server ends.
  void abortLater();

private:
  /// Texts of tokens are looked up when they are written.
  struct TokenRecord {
    Token token;
    size_t offset = 0;      ///< in the choice's text, in characters
    bool hasLogprob = true; ///< a prompt's first token follows nothing
  };
  /// Log-probabilities of a completion: items of JSON lists.
  struct LogprobLists {
    std::string tokens, logprobs, top, offsets;
  };
  /// The log-probabilities of a prompt, which its first choice asks for. All of
  /// its choices show them.
  struct ScoredPrompt {
    bool known = false, asked = false; ///< `tokens` are; `lists` are asked for
    bool written = false;              ///< `lists` are there
    std::vector<Token> tokens;         ///< all but the first
    LogprobLists lists;
  };
  /// A tool's call: what of it was not sent yet, if it is a stream.
  struct ToolCall {
    std::string id, name, arguments;
    bool complete = false, sent = false;
  };
  struct Choice {
    Choice(const Tokenizer &tokenizer, const GenerationRequest &request)
        : stream(tokenizer, request.skipSpecialTokens), stops(request.stops) {
      if (request.answer.format || request.answer.reasoning)
        parser.emplace(request.answer);
    }
    uint64_t number = 0; ///< the engine's
    size_t prompt = 0;   ///< of the request's prompts
    Detokenizer stream;
    StopStrings stops;
    std::optional<AnswerParser> parser; ///< none: all is text
    std::string text;                   ///< not sent yet, as the two below
    std::string reasoning;
    std::vector<ToolCall> calls;
    size_t sentCalls = 0;             ///< calls that the stream is done with
    size_t length = 0; ///< of all text so far, in characters
    std::vector<TokenRecord> records; ///< not sent yet
    int64_t tokens = 0;
    int32_t cached = 0;
    FinishReason finish = FinishReason::none;
    bool reported = false; ///< its finish reason was sent
    bool echoed = false;   ///< the prompt was sent, if wanted
    ServerMetrics::Clock::time_point latest{};
  };

  void submit(std::shared_ptr<const TokenGrammar> grammar);
  void receive(size_t choice, Event event); ///< on a thread of the engine's
  void drain();
  void take(Choice &choice, Event event);
  void takeToken(Choice &choice, Token token);
  bool wantsPromptLogprobs() const {
    return request.echo && request.topLogprobs >= 0;
  }
  /// Of the choices of its prompt.
  bool isFirst(const Choice &choice) const {
    return (&choice - choices.data()) % request.choices == 0;
  }
  /// Text of the model, where stop strings are out.
  void takeText(Choice &choice, const std::string &text);
  void takePieces(Choice &choice, std::vector<AnswerPiece> pieces);
  std::string bytesOf(int32_t id) const;

  void sendChunks();
  /// After an echo: what follows waits while the client reads it.
  void pace();
  void sendChunk(size_t index, Choice &choice);
  void sendText(size_t index, Choice &choice);
  void sendWhole();
  /// About, of the whole answer.
  size_t answerBytes() const;
  std::string wholeAnswer() const;
  /// The whole answer into `body`, on a thread for long texts; throws nothing.
  /// Until what it posts has run, the texts and records of choices are its own.
  void writeLong(bool unwanted);
  void respondWhole(std::string text);
  /// About, of a list of so many tokens with their log-probabilities.
  size_t logprobBytes(size_t tokens) const {
    constexpr size_t ofToken = 64; // its text, number and offset
    return tokens * ofToken *
           (1 + static_cast<size_t>(std::max(request.topLogprobs, 0)));
  }
  /// The lists of all prompts, for a stream as soon as they are known. Long
  /// ones become text on a thread for long texts; chunks wait for them.
  void preparePrompts();
  /// Makes the lists of a prompt, on any thread, from its tokens, which end.
  void writePrompt(size_t prompt);
  /// The same on a thread for long texts; throws nothing.
  void writeLongPrompt(size_t prompt, bool unwanted);
  /// Why a thread for long texts has written nothing.
  static ApiError unwritten(bool unwanted);
  /// `whole`: all of it was written, not an error.
  void finishAnswer(bool whole);
  void fail(const ApiError &error);
  void cancelAll();

  /// Text that was not sent yet, behind the prompt where that is wanted; as a
  /// JSON string.
  std::string unsentText(const Choice &choice) const;
  LogprobLists listsOf(const std::vector<TokenRecord> &records) const;
  void writeLogprobs(JsonWriter &writer, const Choice &choice) const;
  void writeChatLogprobs(JsonWriter &writer, const Choice &choice) const;
  void writeUsage(JsonWriter &writer) const;
  void writeHead(JsonWriter &writer, const char *object) const;
  void writeMessage(JsonWriter &writer, const Choice &choice) const;
  void writeDelta(JsonWriter &writer, Choice &choice) const;
  std::string callId() const;
  const char *reasonOf(const Choice &choice) const;

  const Environment environment;
  const std::shared_ptr<HttpExchange> exchange;
  const GenerationRequest request;
  const std::string id;
  const int64_t created; ///< seconds since 1970
  const ServerMetrics::Clock::time_point arrived;
  std::optional<ActiveRequest> active; ///< until it is over
  ServerMetrics::Clock::time_point firstToken{};
  std::string chunkHead, chunkEnd; ///< of each event of the stream
  std::string line;                ///< the event that is being written
  std::vector<Choice> choices;
  std::vector<ScoredPrompt> scored; ///< of each prompt, if wanted
  size_t unfinished = 0;
  bool begun = false;   ///< the stream's
  bool paced = false;   ///< chunks wait until the client has read
  bool writing = false; ///< `writeLong` runs, or will
  std::string body;     ///< what it writes; empty where it cannot
  /// The answer is complete, or nobody wants it. Set by the exchange's thread.
  std::atomic<bool> over{false};

  std::mutex mutex;
  std::vector<std::pair<size_t, Event>> queue; ///< under `mutex`
  std::vector<std::pair<size_t, Event>> taken; ///< out of `queue`
  bool scheduled = false;                      ///< under `mutex`
  bool lost = false; ///< an event, for want of memory; under `mutex`
};

} // namespace knapper::serving
