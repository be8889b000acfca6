// An engine that outlives its device: one that is lost, or hangs, is built
// again in place. Thread-safe, as Engine is.
#pragma once

#include "serving/engine/Engine.h"

#include <memory>

namespace knapper::serving {

struct LastingEngineOptions {
  /// A step that takes longer has hung; 0: none is taken to have.
  double hungSeconds = 0;
  /// Between two looks at the engine.
  std::chrono::milliseconds look{50};
};

/// Called again for every engine; blocks until it takes requests.
using EngineMaker = std::function<Expected<std::unique_ptr<Engine>>()>;

/// Builds the first engine and watches it on a thread of its own. When its
/// statistics say that the device is lost, or a step hangs, every request that
/// it has ends with a DeviceError, new ones are refused ("rebuilding"), the
/// engine is destroyed, and the next one takes its place. Where that cannot be
/// built it is tried again, after 1, 2, 4, at most 30 s. An engine that hangs
/// cannot be waited for: it is left to a thread that destroys it when its step
/// ends.
/// Limits are those of the newest engine. One that makes vectors is given as it
/// is, and is not watched.
Expected<std::unique_ptr<Engine>>
makeLastingEngine(EngineMaker make, const LastingEngineOptions &options);

} // namespace knapper::serving
