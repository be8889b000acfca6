// Gemma 3, text: norms before and after, queries and keys normalised head by
// head, a window and a rope of its own in five of six layers.
#include "serving/models/Families.h"

#include <cmath>

namespace knapper::serving {

void readGemma3(ConfigReader &config, DecoderConfig &decoder) {
  readGemma(config, decoder);
  decoder.queryNorm = DecoderConfig::QueryNorm::head;
  const char *pattern = config.has("sliding_window_pattern")
                            ? "sliding_window_pattern"
                            : "_sliding_window_pattern";
  int64_t period = config.integer(pattern, 6);
  config.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
  if (period < 1)
    return config.fail(pattern, "is not positive");
  bool named = config.has("layer_types");
  readWindows(config, decoder, 4096);
  for (int64_t i = period - 1; !named && i < decoder.layers; i += period)
    decoder.windows[i] = 0;

  Rope inWindow;
  decoder.rope.theta = config.real("rope_theta", 1e6);
  inWindow.theta = config.real("rope_local_base_freq", 10000);
  double share = 1, shareInWindow = 1;
  auto context = static_cast<double>(decoder.contextLength);
  // The old form scales the layers without a window alone.
  readRopeObject(config, "rope_scaling", context, decoder.rope, share);
  if (config.has("rope_parameters")) {
    ConfigReader both = config.object("rope_parameters");
    readRopeObject(both, "full_attention", context, decoder.rope, share);
    readRopeObject(both, "sliding_attention", context, inWindow, shareInWindow);
    both.ignore({"full_attention", "sliding_attention"});
    config.join(both);
  }
  checkRope(config, decoder, decoder.rope, share);
  checkRope(config, decoder, inWindow, shareInWindow);
  decoder.windowRope = inWindow;
}

} // namespace knapper::serving
