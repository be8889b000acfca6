// Before a model is ready: it must give the logits that it gave the first time.
#pragma once

#include "serving/engine/Engine.h"

namespace knapper::serving {

/// Computes a few tokens and compares their log-probabilities with those in the
/// file, or writes these where there is no such file. Blocks for some steps.
/// DeviceError where they differ or are no numbers: a processor or memory that
/// fails. A file that cannot be written or read is as good as none.
Status selfCheck(Engine &engine, const std::string &file);

} // namespace knapper::serving
