// An engine without a model: tokens follow from the prompt alone. It is what
// the server is tested and measured with.
#pragma once

#include "serving/engine/Engine.h"

#include <chrono>
#include <memory>

namespace knapper::serving {

struct NullEngineOptions {
  ModelLimits limits{4096, 1 << 20, 0};
  int32_t maxSequences = 256;        ///< that run at once
  int32_t queueLimit = 1024;         ///< that wait
  std::chrono::microseconds step{0}; ///< how long a step takes
  /// A prompt that holds this token fails after two tokens; -1: none does.
  int32_t failingToken = -1;
  /// At a prompt that holds this token the device is lost: all that runs fails,
  /// and whatever comes later; -1: at none.
  int32_t losingToken = -1;
  /// The engine stops at a prompt that holds this token, for ever; -1: at none.
  int32_t hangingToken = -1;
};

/// Token `i` of an answer is token `i` of the prompt, again from the start
/// behind its end. The log-probability of a token at place `i` is
/// -(1 + i mod 8) / 8; those beside it are the next numbers, each less likely
/// by one. Where a grammar does not allow a token, it is the next number that
/// is allowed, from 0 again behind the last.
std::unique_ptr<Engine> makeNullEngine(const NullEngineOptions &options);

} // namespace knapper::serving
