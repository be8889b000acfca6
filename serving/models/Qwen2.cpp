// Qwen2 and 2.5: biases before attention, windows in some layers.
#include "serving/models/Families.h"

#include <algorithm>

namespace knapper::serving {

void readQwenWindows(ConfigReader &config, DecoderConfig &decoder) {
  int64_t first = config.integer("max_window_layers", decoder.layers);
  if (!config.flag("use_sliding_window")) {
    config.ignore({"sliding_window", "layer_types"});
    return;
  }
  bool named = config.has("layer_types");
  readWindows(config, decoder, 4096);
  if (!named) // the first layers see everything
    for (int64_t i = 0; i < std::min(first, decoder.layers); ++i)
      decoder.windows[i] = 0;
}

void readQwen2(ConfigReader &config, DecoderConfig &decoder) {
  readCommonFields(config, decoder);
  readActivation(config, decoder);
  readRope(config, decoder);
  readQwenWindows(config, decoder);
  decoder.normEpsilon = config.real("rms_norm_eps");
  decoder.inputBias = true;
}

} // namespace knapper::serving
