// OLMo 2: norms after attention and MLP only, queries and keys normalised
// whole.
#include "serving/models/Families.h"

namespace knapper::serving {

void readOlmo2(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.inputBias = decoder.outputBias = config.flag("attention_bias");
  decoder.queryNorm = DecoderConfig::QueryNorm::all;
  decoder.names.inputNorm = decoder.names.mlpNorm = "";
  decoder.names.afterAttentionNorm = "post_attention_layernorm";
  decoder.names.afterMlpNorm = "post_feedforward_layernorm";
}

} // namespace knapper::serving
