// Gemma 2: norms before and after, caps of scores and logits, windows in every
// second layer.
#include "serving/models/Families.h"

#include <cmath>

namespace knapper::serving {

void readGemma(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  decoder.tiedHead = config.flag("tie_word_embeddings", true);
  readActivation(config, decoder, "hidden_activation", "gelu_pytorch_tanh");
  config.ignore({"hidden_act"}); // the older name of the field above
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.norm = NormKind::rmsOnePlus;
  decoder.inputBias = decoder.outputBias = config.flag("attention_bias");
  decoder.logitCap = config.real("final_logit_softcapping", 0);
  decoder.embeddingScale = std::sqrt(static_cast<float>(decoder.width));
  double scalar = config.real("query_pre_attn_scalar");
  if (!(scalar > 0))
    return config.fail("query_pre_attn_scalar", "is not positive");
  decoder.attentionScale = 1 / std::sqrt(scalar);
  config.expect("use_bidirectional_attention", false);
  decoder.names.afterAttentionNorm = "post_attention_layernorm";
  decoder.names.mlpNorm = "pre_feedforward_layernorm";
  decoder.names.afterMlpNorm = "post_feedforward_layernorm";
}

void readGemma2(ConfigReader &config, DecoderConfig &decoder) {
  readGemma(config, decoder);
  readRope(config, decoder);
  bool named = config.has("layer_types");
  readWindows(config, decoder, 4096);
  for (int64_t i = 1; !named && i < decoder.layers; i += 2)
    decoder.windows[i] = 0;
  decoder.scoreCap = config.real("attn_logit_softcapping", 0);
}

} // namespace knapper::serving
