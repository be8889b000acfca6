//===- ServeLoad.h - Requests to a server of OpenAI's API, with times -----===//
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace knapper::cli {

struct ServeLoadOptions {
  std::string url, model, key; ///< no model: the first of /v1/models
  bool chat = false;           ///< chat completions, else completions
  int requests = 100;
  int concurrency = 8; ///< of the closed loop: so many clients
  double rate = 0;     ///< of the open loop: arrivals a second; 0: closed
  int inputWords = 128;
  int maxTokens = 64;
  bool ignoreEos = false; ///< a field that not every server knows
  double temperature = 0;
  uint64_t seed = 0;
  double timeout = 300; ///< seconds without a byte
};

/// Times of one request, in seconds; `start` counts from the load's begin.
struct ServeTimes {
  double start = 0, whole = 0;
  double first = 0;         ///< to the first part; 0: the answer has no text
  std::vector<double> gaps; ///< between parts of the answer
  int64_t promptTokens = 0, completionTokens = 0;
  bool counted = false; ///< tokens are the server's; else parts are counted
};

struct ServeLoadResult {
  std::string model;
  double seconds = 0; ///< from the first request to the last byte
  int mostAtOnce = 0;
  std::vector<ServeTimes> done;
  std::map<std::string, int> failures; ///< by message
};

/// Sends requests as streams, each prompt another one. Closed loop: every
/// client sends its next one when its last has ended. Open loop: arrivals are a
/// Poisson process that does not wait for answers, so a server that falls
/// behind shows it. Blocks until all have ended. DeviceError when the server
/// cannot be asked for its models.
Expected<ServeLoadResult> runServeLoad(const ServeLoadOptions &options);

} // namespace knapper::cli
