// The fields of a chat request that give tools, and what they ask of its
// answer.
#pragma once

#include "serving/chat/CallScanner.h"
#include "serving/grammar/GrammarSpec.h"
#include "serving/http/FieldReader.h"

namespace knapper::serving {

class ModelTexts;

struct ToolRequest {
  FieldReader::Json rendered; ///< for the template; empty: no tools
  /// The tools that the answer may call; null: calls are texts.
  std::shared_ptr<const ToolSchemas> schemas;
  bool parallel = true;
  /// Of the answer: toolStructure's; null: any text.
  FieldReader::Json structure;
  bool forced = false; ///< nothing but calls
  std::string place;   ///< of the field that asks for the structure
};

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`. A problem is kept by
/// the reader.
ToolRequest readTools(FieldReader &fields, const ModelTexts &texts);

/// Joins what tools and the other fields ask for, behind the reasoning where
/// the model has one. `grammar`: of the other fields, and the result.
void constrainAnswer(FieldReader &fields, const ToolRequest &tools,
                     const ReasoningFormat *reasoning, ReasoningState state,
                     std::optional<GrammarSpec> &grammar);

} // namespace knapper::serving
