// Phi 3 and 4: queries, keys and values from one matrix, gate and up too.
#include "serving/models/Families.h"

namespace knapper::serving {

void readPhi3(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  readWindows(config, decoder, 0);
  decoder.normEpsilon = config.real("rms_norm_eps");
  // A rope without scaling has no use for it.
  config.ignore({"original_max_position_embeddings"});
  decoder.names.queryKeyValue = "self_attn.qkv_proj";
  decoder.names.gateUp = "mlp.gate_up_proj";
}

} // namespace knapper::serving
