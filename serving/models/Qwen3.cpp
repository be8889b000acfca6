// Qwen3: queries and keys are normalised head by head.
#include "serving/models/Families.h"

namespace knapper::serving {

void readQwen3(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  readQwenWindows(config, decoder);
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.inputBias = decoder.outputBias = config.flag("attention_bias");
  decoder.queryNorm = DecoderConfig::QueryNorm::head;
}

} // namespace knapper::serving
