#include "serving/models/DecoderProgram.h"

#include "serving/models/DecoderBuilder.h"
#include "serving/models/EncoderBuilder.h"
#include "serving/models/ProgramText.h"

using namespace mlir;

namespace knapper::serving {

Expected<std::string> decoderText(const DecoderConfig &config,
                                  const Checkpoint &checkpoint,
                                  const DecoderForm &form,
                                  std::vector<WeightInput> *weights) {
  return programText(config.family, [&](GraphBuilder &graph, Location location,
                                        ModuleOp module) {
    DecoderBuilder builder(graph, location, config, checkpoint, form);
    Status status = builder.build(module);
    if (weights)
      *weights = builder.takeInputs();
    return status;
  });
}

Expected<DecoderProgram> compileDecoder(const DecoderConfig &config,
                                        const Checkpoint &checkpoint,
                                        const DecoderForm &form,
                                        Options options) {
  DecoderProgram program;
  ASSIGN_OR_RETURN(program.artefact,
                   compileProgram(config.family,
                                  form.weightInputs ? std::vector<std::string>()
                                                    : checkpoint.files(),
                                  std::move(options), [&] {
                                    return decoderText(config, checkpoint, form,
                                                       &program.weights);
                                  }));
  return program;
}

Expected<std::shared_ptr<const Artefact>>
compileEncoder(const EncoderConfig &config, const Checkpoint &checkpoint,
               Options options) {
  return compileProgram(
      config.family, checkpoint.files(), std::move(options), [&] {
        return programText(
            config.family,
            [&](GraphBuilder &graph, Location location, ModuleOp module) {
              return EncoderBuilder(graph, location, config, checkpoint)
                  .build(module);
            });
      });
}

} // namespace knapper::serving
