// Calls of tools, read as they come.
#pragma once

#include "serving/chat/AnswerFormat.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace knapper::serving {

/// The tools of a request: the JSON schemas of their parameters by name.
using ToolSchemas = std::map<std::string, OrderedJson>;

/// A part of an answer.
struct AnswerPiece {
  enum class Kind : uint8_t {
    content,
    reasoning,
    callBegin,     ///< the tool's name
    callArguments, ///< what follows of the arguments' JSON
    callEnd,       ///< it is complete, and its arguments are JSON
    callBroken,    ///< it was none: the whole text that it came from
  } kind;
  std::string text;
};

/// Reads one body: what stands between the begin and the end of a call.
class CallScanner {
public:
  enum class State : uint8_t { more, done, broken };
  virtual ~CallScanner() = default;
  /// Takes the next character. `done`: it was the last one; `more` with
  /// `begun`: a call's pieces were added.
  virtual State push(char c, std::vector<AnswerPiece> &pieces) = 0;
  virtual bool begun() const = 0; ///< a call's name was read
  /// The name was given out: what follows it may still show that it is no call.
  virtual bool told() const { return begun(); }
  /// Nothing follows: gives out what was read of a call that begun.
  virtual void finish(std::vector<AnswerPiece> &) {}
};

std::unique_ptr<CallScanner> makeCallScanner(const ToolFormat &format,
                                             const ToolSchemas &tools);

} // namespace knapper::serving
