// The functions behind the lines of Families.def.
#pragma once

#include "serving/models/DecoderConfig.h"

namespace knapper::serving {
#define FAMILY(ARCHITECTURE, NAME)                                             \
  void read##NAME(ConfigReader &, DecoderConfig &);
#include "serving/models/Families.def"
#undef FAMILY

/// What Gemma 2 and 3 share: all but ropes, windows and the cap of scores.
void readGemma(ConfigReader &config, DecoderConfig &decoder);
/// Of Qwen2 and Qwen3: `sliding_window`, where `use_sliding_window` holds.
void readQwenWindows(ConfigReader &config, DecoderConfig &decoder);
} // namespace knapper::serving
