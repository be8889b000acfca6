// Mixtral: Mistral whose MLPs are mixtures of experts.
#include "serving/models/Families.h"

namespace knapper::serving {

void readMixtral(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  readWindows(config, decoder, 0);
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.experts = config.integer("num_local_experts");
  decoder.expertsPerToken = config.integer("num_experts_per_tok");
  decoder.expertInner = decoder.inner;
  decoder.names.router = "block_sparse_moe.gate";
  decoder.names.expert = "block_sparse_moe.experts.{}.";
  decoder.names.expertGate = "w1";
  decoder.names.expertUp = "w3";
  decoder.names.expertDown = "w2";
  config.ignore(
      {"router_aux_loss_coef", "router_jitter_noise", "output_router_logits"});
}

} // namespace knapper::serving
