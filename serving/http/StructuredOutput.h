// The fields of a request that say what its answer must look like.
#pragma once

#include "serving/grammar/GrammarCompiler.h"
#include "serving/http/FieldReader.h"

namespace knapper::serving {

class ModelTexts;

/// From `response_format`, `structured_outputs` or one of the `guided_` fields;
/// none where the answer is any text. A problem is kept by the reader, with its
/// place in the JSON.
std::optional<GrammarSpec> readGrammar(FieldReader &fields);

/// A schema's grammar, or a problem of the reader's field `name`, whose place
/// is `at` in it ("" or ".schema" and so on).
std::optional<GrammarSpec>
schemaGrammar(FieldReader &fields, std::string_view name, const std::string &at,
              const FieldReader::Json &schema, bool closed);

/// Of a grammar that does not compile.
ApiError grammarError(const Error &error, const std::string &place);

/// Starts the compiler of grammars for a model's tokens: best before the model
/// is loaded.
Expected<std::unique_ptr<GrammarCompiler>>
startGrammars(const ModelTexts &texts, const GrammarLimits &limits = {});

} // namespace knapper::serving
