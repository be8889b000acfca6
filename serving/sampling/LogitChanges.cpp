#include "serving/sampling/LogitChanges.h"

namespace knapper::serving {

static bool repeats(const SamplingOptions &options) {
  return options.repetitionPenalty != 1;
}
static bool penalises(const SamplingOptions &options) {
  return options.frequencyPenalty != 0 || options.presencePenalty != 0;
}

bool needsPromptCounts(const SamplingOptions &options) {
  return repeats(options);
}
bool needsAnswerCounts(const SamplingOptions &options) {
  return repeats(options) || penalises(options);
}

size_t mostLogitChanges(const SamplingOptions &options,
                        const TokenCounts &counts) {
  return options.bias.size() +
         (needsPromptCounts(options) ? counts.prompt.size() : 0) +
         (needsAnswerCounts(options) ? counts.answer.size() : 0);
}

std::vector<LogitChange> logitChanges(const SamplingOptions &options,
                                      const TokenCounts &counts,
                                      int64_t vocabulary) {
  bool repeated = repeats(options), penalised = penalises(options);
  std::vector<LogitChange> changes;
  changes.reserve(mostLogitChanges(options, counts));
  // `answered`: how often the answer has the token; `isHeld`: it or the prompt.
  auto change = [&](int32_t token, int32_t answered, bool isHeld) {
    if (token < 0 || token >= vocabulary)
      return;
    LogitChange made{token};
    if (!options.bias.empty())
      if (auto it = options.bias.find(token); it != options.bias.end())
        made.bias = it->second;
    if (repeated && isHeld)
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
  if (repeated)
    for (auto [token, count] : counts.prompt)
      change(token, penalised ? answered(token) : 0, true);
  if (repeated || penalised)
    for (auto [token, count] : counts.answer)
      if (!repeated || !counts.prompt.contains(token))
        change(token, count, true);
  for (auto [token, bias] : options.bias) {
    bool isKnown = (repeated && counts.prompt.contains(token)) ||
                   ((repeated || penalised) && counts.answer.contains(token));
    if (!isKnown)
      change(token, 0, false);
  }
  return changes;
}

} // namespace knapper::serving
