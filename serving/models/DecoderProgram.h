// A decoder or an encoder compiled: from its folder to an artefact.
#pragma once

#include "compiler/options/Options.h"
#include "runtime/artefact/Artefact.h"
#include "serving/models/DecoderBuilder.h"
#include "serving/models/EncoderConfig.h"

namespace knapper::serving {

/// The program of DecoderBuilder.h as text of tensor IR.
Expected<std::string> decoderText(const DecoderConfig &config,
                                  const Checkpoint &checkpoint,
                                  const DecoderForm &form);

/// Compiles it, or takes it from the compile cache, whose key are the text, the
/// weights and the options.
Expected<std::shared_ptr<const Artefact>>
compileDecoder(const DecoderConfig &config, const Checkpoint &checkpoint,
               const DecoderForm &form, Options options);

/// The same for the program of EncoderBuilder.h.
Expected<std::shared_ptr<const Artefact>>
compileEncoder(const EncoderConfig &config, const Checkpoint &checkpoint,
               Options options);

} // namespace knapper::serving
