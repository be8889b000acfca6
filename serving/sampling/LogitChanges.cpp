#include "serving/sampling/LogitChanges.h"

namespace knapper::serving {

size_t mostLogitChanges(const SamplingOptions &options,
                        const TokenCounts &counts) {
  bool repeats = options.repetitionPenalty != 1,
       penalised =
           options.frequencyPenalty != 0 || options.presencePenalty != 0;
  return options.bias.size() + (repeats ? counts.prompt.size() : 0) +
         (repeats || penalised ? counts.answer.size() : 0);
}

std::vector<LogitChange> logitChanges(const SamplingOptions &options,
                                      const TokenCounts &counts,
                                      int64_t vocabulary) {
  bool repeats = options.repetitionPenalty != 1,
       penalised =
           options.frequencyPenalty != 0 || options.presencePenalty != 0;
  std::vector<LogitChange> changes;
  changes.reserve(mostLogitChanges(options, counts));
  // `answered`: how often the answer has the token.
  auto change = [&](int32_t token, int32_t answered, bool isThere) {
    if (token < 0 || token >= vocabulary)
      return;
    LogitChange made{token};
    if (!options.bias.empty())
      if (auto it = options.bias.find(token); it != options.bias.end())
        made.bias = it->second;
    if (repeats && isThere)
      made.repetition = options.repetitionPenalty;
    if (penalised && answered > 0)
      made.penalty = options.frequencyPenalty * static_cast<float>(answered) +
                     options.presencePenalty;
    changes.push_back(made);
  };
  auto answered = [&](int32_t token) {
    auto it = counts.answer.find(token);
    return it == counts.answer.end() ? 0 : it->second;
  };
  if (repeats)
    for (auto [token, count] : counts.prompt)
      change(token, penalised ? answered(token) : 0, true);
  if (repeats || penalised)
    for (auto [token, count] : counts.answer)
      if (!repeats || !counts.prompt.contains(token))
        change(token, count, true);
  for (auto [token, bias] : options.bias) {
    bool there = (repeats && counts.prompt.contains(token)) ||
                 ((repeats || penalised) && counts.answer.contains(token));
    if (!there)
      change(token, 0, false);
  }
  return changes;
}

} // namespace knapper::serving
