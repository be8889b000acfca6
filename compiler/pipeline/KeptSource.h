//===- KeptSource.h - The model inside of its artefact --------------------===//
#pragma once

#include "compiler/pipeline/Compile.h"

namespace knapper {

class Artefact;
class ArtefactWriter;

/// What --keep-source stores: the model's own bytes and how they were imported.
struct KeptSource {
  std::string format; ///< a front end's name: "onnx" or "stablehlo"
  std::string dims;   ///< of the option `dim`
  std::string name;   ///< of the model's file
  std::string bytes;
};

/// UserError where the option asks for a source that cannot be kept: tensor IR
/// and graphs of PyTorch, which may name files, and models whose weights lie in
/// other files. Success where it does not ask.
Status checkKeepsSource(const CompileInput &input, const Options &options);
/// Adds the section, where the option asks for it.
Status keepSource(const CompileInput &input, const Options &options,
                  ArtefactWriter &writer);
/// Reads and compares the section's hash, which loading does not. UserError
/// where there is none or it is damaged.
Expected<KeptSource> readKeptSource(const Artefact &artefact);

} // namespace knapper
