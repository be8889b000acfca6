// The functions behind the lines of Families.def.
#pragma once

#include "serving/models/DecoderConfig.h"

namespace knapper::serving {
#define FAMILY(ARCHITECTURE, NAME)                                             \
  void read##NAME(ConfigReader &, DecoderConfig &);
#include "serving/models/Families.def"
#undef FAMILY
} // namespace knapper::serving
