// Llama 2 and 3, SmolLM2 and all that has their form.
#include "serving/models/Families.h"

namespace knapper::serving {

void readLlama(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.inputBias = decoder.outputBias = config.flag("attention_bias");
  decoder.mlpBias = config.flag("mlp_bias");
}

} // namespace knapper::serving
