//===- Knobs.h - Decisions of schedules that can be tuned -----------------===//
//
// Where more than one choice is right, a schedule asks here: the analytic model
// says which choice it takes and which others may be tried. A tuning record
// (tune/Records.h) answers otherwise. Every choice on offer gives right
// results; tests take them all.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tune/Choice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace knapper {

/// The decisions of one kernel's schedules.
class Knobs {
public:
  /// `recorded`: values by name; others are the model's.
  explicit Knobs(tune::Choice recorded = {}) : recorded(std::move(recorded)) {}

  /// The recorded value if it is `best` or one of `others`, else `best`.
  /// Asked twice for one name, the first answer stands for the list.
  int64_t pick(llvm::StringRef name, int64_t best,
               llvm::ArrayRef<int64_t> others);

  const std::vector<tune::Knob> &all() const { return knobs; }
  /// Whether everything recorded was asked for and on offer.
  bool fits() const;

private:
  tune::Choice recorded;
  std::vector<tune::Knob> knobs;
};

} // namespace knapper
