//===- Search.h - Which choices of a kernel to measure next ---------------===//
//
// Starts at the analytic model's choice and moves along one knob at a time to
// the best neighbour (coordinate descent; Wright, Mathematical Programming 151,
// 2015), likeliest values first, so that it can be ended at any time. Knows
// nothing of kernels or clocks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tune/Records.h"
#include <optional>
#include <set>

namespace knapper::tune {

class Search {
public:
  /// Choices that are less than this better are noise.
  static constexpr double kLeastGain = 1.02;
  /// So many choices of one kernel are measured at most.
  static constexpr size_t kMostMeasured = 64;

  explicit Search(std::vector<Knob> knobs);

  /// What to measure next; nothing when the search has ended. The same until
  /// `measured` is called. Values that are the model's are left out.
  std::optional<Choice> next();
  /// `gain`: the model's time over that of what `next` gave. 0: it could not be
  /// built or run.
  void measured(double gain);

  const Choice &best() const { return bestChoice; } ///< empty: the model's
  double gain() const { return bestGain; }          ///< of `best`, at least 1
  size_t count() const { return tried; }            ///< measured so far

private:
  int64_t valueOf(const Knob &knob) const;

  std::vector<Knob> knobs;
  /// The next of one knob alone, then of the others together.
  std::optional<Choice> propose();

  Choice bestChoice;
  double bestGain = 1;
  Choice together; ///< the best of the knobs that go together
  double togetherGain = 1;
  std::set<Choice> seen;
  std::optional<Choice> pending;
  size_t tried = 0;
};

} // namespace knapper::tune
