//===- Knobs.h - Decisions of schedules that can be tuned -----------------===//
//
// A schedule sets a field of its configuration to the analytic model's value
// and calls `tune`. Other right values are the configuration's `space`
// (ir/config/Fields.h). A tuning record (tune/Records.h) replaces the model's
// value; its keys are those of dumps. `op_cases --other N` tests every value on
// offer. Used by one thread.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/Fields.h"
#include "tune/Choice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace knapper {

/// The decisions of one kernel's schedules.
class Knobs {
public:
  /// `recorded`: values by name; others are the model's.
  explicit Knobs(tune::Choice recorded = {}) : recorded(std::move(recorded)) {}

  /// `field` of `config` has the model's value. Sets it to the recorded one if
  /// that is in `others`. Of a field offered twice the first offer is listed.
  template <class Config, class Field>
  void tune(const Config &config, Field &field,
            llvm::ArrayRef<int64_t> others) {
    field = static_cast<Field>(pick(config::keyOf(config, field),
                                    static_cast<int64_t>(field), others));
  }
  /// The same; `others` are the values of the configuration's space for which
  /// `admits` is true.
  template <class Config, class Field>
  void tune(const Config &config, Field &field,
            llvm::function_ref<bool(int64_t)> admits = nullptr) {
    std::vector<int64_t> others = config::spaceOf(config, field);
    if (admits)
      std::erase_if(others, [&](int64_t other) { return !admits(other); });
    tune(config, field, llvm::ArrayRef<int64_t>(others));
  }

  /// Whether a record takes code that is not the schedules', which makes their
  /// decisions void.
  bool offerAlone(llvm::StringRef name);

  const std::vector<tune::Knob> &all() const { return knobs; }
  /// Whether everything recorded was asked for and on offer.
  bool fits() const;

private:
  int64_t pick(llvm::StringRef name, int64_t best,
               llvm::ArrayRef<int64_t> others);

  tune::Choice recorded;
  std::vector<tune::Knob> knobs;
};

} // namespace knapper
