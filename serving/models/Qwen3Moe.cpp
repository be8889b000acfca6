// Qwen3 whose MLPs, or some of them, are mixtures of experts.
#include "serving/models/Families.h"

namespace knapper::serving {

void readQwen3Moe(ConfigReader &config, DecoderConfig &decoder) {
  readQwen3(config, decoder);
  // transformers writes the second name for the first.
  decoder.experts = config.has("num_experts")
                        ? config.integer("num_experts")
                        : config.integer("num_local_experts");
  decoder.expertsPerToken = config.integer("num_experts_per_tok");
  decoder.expertInner = config.integer("moe_intermediate_size");
  decoder.sharesSumToOne = config.flag("norm_topk_prob");
  int64_t step = config.integer("decoder_sparse_step", 1);
  if (step < 1)
    return config.fail("decoder_sparse_step", "is not positive");
  decoder.denseLayers.assign(decoder.layers, false);
  for (size_t i = 0; i < decoder.denseLayers.size(); ++i)
    decoder.denseLayers[i] = (i + 1) % step != 0;
  for (double layer : config.reals("mlp_only_layers"))
    if (layer >= 0 && layer < static_cast<double>(decoder.denseLayers.size()))
      decoder.denseLayers[static_cast<size_t>(layer)] = true;
  config.ignore({"router_aux_loss_coef", "output_router_logits"});
}

} // namespace knapper::serving
