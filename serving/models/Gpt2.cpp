// GPT-2: learned positions, layer norms, matrices stored the other way round.
#include "serving/models/Families.h"

namespace knapper::serving {

void readGpt2(ConfigReader &config, DecoderConfig &decoder) {
  decoder.layers = config.layers("n_layer");
  decoder.width = config.integer("n_embd");
  decoder.heads = decoder.keyHeads = config.integer("n_head");
  decoder.headWidth = decoder.heads > 0 ? decoder.width / decoder.heads : 0;
  decoder.inner = config.integer("n_inner", 4 * decoder.width);
  decoder.vocabulary = config.integer("vocab_size");
  decoder.contextLength = config.integer("n_positions");
  decoder.tiedHead = config.flag("tie_word_embeddings", true);
  readActivation(config, decoder, "activation_function", "gelu_new");
  decoder.normEpsilon = config.real("layer_norm_epsilon");
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  config.ignore({"n_ctx", "reorder_and_upcast_attn", "summary_activation",
                 "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "task_specific_params"});
  decoder.norm = NormKind::layer;
  decoder.position = PositionKind::learned;
  decoder.gated = false;
  decoder.inputBias = decoder.outputBias = decoder.mlpBias = true;
  decoder.transposedWeights = true;
  TensorNames &names = decoder.names;
  names.base = "transformer.";
  names.embedding = "transformer.wte.weight";
  names.positions = "transformer.wpe.weight";
  names.layer = "transformer.h.{}.";
  names.inputNorm = "ln_1";
  names.queryKeyValue = "attn.c_attn";
  names.output = "attn.c_proj";
  names.mlpNorm = "ln_2";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.finalNorm = "transformer.ln_f";
}

} // namespace knapper::serving
