// An answer's text, split into content, reasoning and calls as it comes.
#pragma once

#include "serving/chat/CallScanner.h"

namespace knapper::serving {

/// Of one answer; the tools must live longer.
class AnswerParser {
public:
  struct Settings {
    const ToolFormat *format = nullptr; ///< null: no calls
    const ToolSchemas *tools = nullptr;
    const ReasoningFormat *reasoning = nullptr; ///< null: it is content
    ReasoningState state = ReasoningState::closed;
    bool parallel = true; ///< more than one call
  };
  explicit AnswerParser(const Settings &settings);

  /// Adds the pieces that a text gives; what may be the begin of a mark is held
  /// back. What begins like a call and is none comes as it was written.
  void push(std::string_view text, std::vector<AnswerPiece> &pieces);
  /// The rest. A call that was cut keeps what it has.
  void finish(std::vector<AnswerPiece> &pieces);
  /// No more is wanted: the one call that is allowed is there.
  bool enough() const {
    return calls > 0 && !settings.parallel && place != Place::call;
  }
  int calls = 0; ///< that are complete

private:
  enum class Place : uint8_t { reasoning, content, call, afterCall };

  /// Goes on with what is held; false: more is needed.
  bool advance(std::vector<AnswerPiece> &pieces);
  bool advanceReasoning(std::vector<AnswerPiece> &pieces);
  bool advanceContent(std::vector<AnswerPiece> &pieces);
  bool advanceCall(std::vector<AnswerPiece> &pieces);
  bool advanceAfterCall();
  void add(AnswerPiece::Kind kind, std::string_view text,
           std::vector<AnswerPiece> &pieces);
  void beginCall(std::string_view mark);
  void breakCall(std::vector<AnswerPiece> &pieces);

  const Settings settings;
  Place place;
  std::string held;
  std::string raw; ///< of the call that is read
  std::unique_ptr<CallScanner> scanner;
  int before = 0;          ///< calls before this body
  bool any = false;        ///< content was given out since the part before
  bool behindPart = false; ///< of another kind
  bool reasoned = false;   ///< no reasoning can begin any more
  std::string spaces;      ///< at a border: given out with what follows
};

} // namespace knapper::serving
