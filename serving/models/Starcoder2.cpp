// StarCoder 2: layer norms, biases, an MLP without a gate, a window.
#include "serving/models/Families.h"

namespace knapper::serving {

void readStarcoder2(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  decoder.tiedHead = config.flag("tie_word_embeddings", true);
  readActivation(config, decoder, "hidden_act", "gelu_pytorch_tanh");
  readRope(config, decoder);
  readWindows(config, decoder, 0);
  decoder.normEpsilon = config.real("norm_epsilon");
  decoder.inputBias = decoder.outputBias = decoder.mlpBias =
      config.flag("use_bias", true);
  decoder.norm = NormKind::layer;
  decoder.gated = false;
  decoder.names.up = "mlp.c_fc";
  decoder.names.down = "mlp.c_proj";
}

} // namespace knapper::serving
