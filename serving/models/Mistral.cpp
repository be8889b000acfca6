// Mistral: Llama with a window.
#include "serving/models/Families.h"

namespace knapper::serving {

void readMistral(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  readWindows(config, decoder, 4096);
  decoder.normEpsilon = config.real("rms_norm_eps");
}

} // namespace knapper::serving
