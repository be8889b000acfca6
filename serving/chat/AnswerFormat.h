// How a model writes what is not the text of its answer: calls of tools and
// its reasoning. Rows of data; the chat template says which ones apply.
#pragma once

#include "serving/json/OrderedJson.h"

#include <span>
#include <string_view>

namespace knapper::serving {

struct ToolFormat {
  std::string_view name;
  std::string_view marks; ///< texts that a template of this format has, by "|"
  /// Around a call; an empty begin: an answer that starts with "{" is one.
  std::string_view begin, end;
  enum class Body : uint8_t {
    json,       ///< {"name": ..., "arguments": {...}}
    list,       ///< a list of those, or name[ARGS]{...}
    parameters, ///< <function=name> <parameter=p> value </parameter>
                ///< </function>
  } body;
  std::string_view argumentsKey;
  std::string_view separator; ///< of calls that follow one another
  int idLength;               ///< characters that a call's id has
};

struct ReasoningFormat {
  std::string_view begin, end;
};

std::span<const ToolFormat> toolFormats();
/// Of a template's source; null: none that is known.
const ToolFormat *findToolFormat(std::string_view source);
const ReasoningFormat *findReasoningFormat(std::string_view source);

/// What the prompt says of the reasoning.
enum class ReasoningState : uint8_t {
  free,   ///< the answer may begin with it
  open,   ///< the answer goes on with it
  closed, ///< the prompt ends it
};
ReasoningState reasoningAfter(std::string_view prompt,
                              const ReasoningFormat *format);

/// The structure (xgrammar's structural tag) of an answer that calls. `tools`
/// are functions as OpenAI's API has them. `forced`: nothing but calls, else a
/// text with calls whose arguments follow the schemas of strict tools.
OrderedJson toolStructure(const ToolFormat &format, const OrderedJson &tools,
                          bool forced, bool parallel);

} // namespace knapper::serving
