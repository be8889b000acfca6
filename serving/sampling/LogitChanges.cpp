#include "serving/sampling/LogitChanges.h"

namespace knapper::serving {

std::vector<LogitChange> logitChanges(const SamplingOptions &options,
                                      const TokenCounts &counts,
                                      int64_t vocabulary) {
  std::vector<LogitChange> changes;
  std::unordered_map<int32_t, size_t> places;
  auto change = [&](int32_t token) -> LogitChange * {
    if (token < 0 || token >= vocabulary)
      return nullptr;
    auto [it, isNew] = places.try_emplace(token, changes.size());
    if (isNew)
      changes.push_back({token});
    return &changes[it->second];
  };
  for (auto [token, bias] : options.bias)
    if (LogitChange *of = change(token))
      of->bias = bias;
  if (options.repetitionPenalty != 1)
    for (const auto *list : {&counts.prompt, &counts.answer})
      for (auto [token, count] : *list)
        if (LogitChange *of = change(token))
          of->repetition = options.repetitionPenalty;
  if (options.frequencyPenalty != 0 || options.presencePenalty != 0)
    for (auto [token, count] : counts.answer)
      if (LogitChange *of = change(token))
        of->penalty = options.frequencyPenalty * static_cast<float>(count) +
                      options.presencePenalty;
  return changes;
}

} // namespace knapper::serving
