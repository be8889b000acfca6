// A decoder or an encoder compiled: from its folder to an artefact.
#pragma once

#include "compiler/options/Options.h"
#include "runtime/artefact/Artefact.h"
#include "serving/models/DecoderBuilder.h"
#include "serving/models/EncoderConfig.h"

namespace knapper::serving {

/// The program of DecoderBuilder.h as text of tensor IR, and the weights that
/// are its inputs.
Expected<std::string> decoderText(const DecoderConfig &config,
                                  const Checkpoint &checkpoint,
                                  const DecoderForm &form,
                                  std::vector<WeightInput> *weights = nullptr);

struct DecoderProgram {
  std::shared_ptr<const Artefact> artefact;
  std::vector<WeightInput> weights; ///< its last inputs
};

/// Compiles it, or takes it from the compile cache, whose key are the text, the
/// weights that are constants of it, and the options.
Expected<DecoderProgram> compileDecoder(const DecoderConfig &config,
                                        const Checkpoint &checkpoint,
                                        const DecoderForm &form,
                                        Options options);

/// The same for the program of EncoderBuilder.h.
Expected<std::shared_ptr<const Artefact>>
compileEncoder(const EncoderConfig &config, const Checkpoint &checkpoint,
               Options options);

} // namespace knapper::serving
