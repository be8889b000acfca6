#include "serving/scheduler/StepRecord.h"

#include <algorithm>
#include <charconv>

namespace knapper::serving {
namespace {

/// Writes and reads the same fields in the same order.
struct LineWriter {
  std::string text;
  bool ok = true;
  template <typename Number> void number(Number &value) {
    char digits[24];
    auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    if (!text.empty())
      text += ' ';
    text.append(digits, end);
  }
  template <typename Item, typename Each>
  void list(std::vector<Item> &items, Each &&each) {
    size_t count = items.size();
    number(count);
    for (Item &item : items)
      each(*this, item);
  }
};

struct LineReader {
  std::string_view text;
  bool ok = true;
  template <typename Number> void number(Number &value) {
    while (!text.empty() && text.front() == ' ')
      text.remove_prefix(1);
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    ok &= error == std::errc();
    text.remove_prefix(ok ? static_cast<size_t>(end - text.data())
                          : text.size());
  }
  template <typename Item, typename Each>
  void list(std::vector<Item> &items, Each &&each) {
    size_t count = 0;
    number(count);
    ok &= count <= text.size(); // each has a digit at least
    for (size_t i = 0; ok && i < count; ++i)
      each(*this, items.emplace_back());
  }
};

template <typename Line>
void fields(Line &line, SchedulerState &state, StepDecision &decision) {
  auto view = [](Line &to, SequenceView &one) {
    to.number(one.id);
    for (int32_t *field :
         {&one.priority, &one.tokens, &one.computed, &one.blocks, &one.proposed,
          &one.hitBlocks, &one.hitIdle})
      to.number(*field);
  };
  auto id = [](Line &to, uint64_t &one) { to.number(one); };
  for (int32_t *field : {&state.budget, &state.blockTokens, &state.available,
                         &state.maxSequences})
    line.number(*field);
  line.list(state.running, view);
  line.list(state.waiting, view);
  line.list(decision.parts, [](Line &to, StepDecision::Part &part) {
    to.number(part.id);
    to.number(part.tokens);
    to.number(part.proposed);
  });
  line.list(decision.admitted, id);
  line.list(decision.preempted, id);
}

} // namespace

std::string toLine(const SchedulerState &state, const StepDecision &decision) {
  LineWriter line;
  SchedulerState ours = state;
  StepDecision made = decision;
  fields(line, ours, made);
  return std::move(line.text);
}

Expected<StepRecord> readStepRecord(std::string_view text) {
  LineReader line{text};
  StepRecord record;
  fields(line, record.state, record.decision);
  if (!line.ok || !line.text.empty())
    return userError("is no record of a step", std::string(text.substr(0, 60)),
                     "a file that `knapper serve --record` wrote");
  if (record.state.blockTokens < 1)
    return userError("has blocks of no tokens",
                     std::string(text.substr(0, 60)));
  return record;
}

bool areEqual(const StepDecision &a, const StepDecision &b) {
  return a.admitted == b.admitted && a.preempted == b.preempted &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(),
                    b.parts.end(), [](const auto &one, const auto &other) {
                      return one.id == other.id && one.tokens == other.tokens &&
                             one.proposed == other.proposed;
                    });
}

} // namespace knapper::serving
