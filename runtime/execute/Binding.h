// A program with its sizes known: values, memory plan, the choice of every
// launch. A pure function of the program and the symbols.
#pragma once

#include "runtime/artefact/Program.h"
#include "runtime/device/Device.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace knapper {

/// Immutable; shared by the runs that have the same sizes. Entries that depend
/// on late symbols are zero (choices: kNone) and made during the run; so are
/// optional ones (see Program) for which these sizes make no sense.
struct Binding {
  std::vector<int64_t> symbols;
  std::vector<int64_t> values;
  std::vector<uint8_t> known;    // per value: not late, and in 64 bits
  std::vector<uint64_t> offsets; // per buffer: place of a temp in the arena
  std::vector<uint32_t> choice;  // per launch
  uint64_t arenaBytes = 0;
  uint64_t liveBytes = 0; // the largest sum of temps alive at once
  uint64_t scratch = 0;   // bytes per worker, the most that a launch takes
  /// Per launch: the library's call that is its choice, if any. Made by the
  /// module (VendorCalls.h), not by bindProgram.
  std::vector<std::shared_ptr<const VendorCall>> calls;
};

/// values[index] = its operation on its operands; no value on overflow or
/// division by zero.
std::optional<int64_t> evaluate(const Program::Value &value,
                                std::span<const int64_t> symbols,
                                std::span<const int64_t> values);

/// `symbols`: one per symbol of the program, late ones ignored. Sizes out of a
/// symbol's range, failed checks and overflows are UserErrors.
Expected<Binding> bindProgram(const Program &program,
                              std::span<const int64_t> symbols);

/// A value against its declared range. The caller says where it came from.
Status checkSymbol(const Program::Symbol &symbol, int64_t value);

/// The choice of a launch from number `first` on, and whether its grid, grain
/// and scratch make sense.
Expected<uint32_t> choose(const Program &program, const Program::Launch &launch,
                          std::span<const int64_t> values,
                          std::span<const uint8_t> known, uint32_t first = 0);

/// A value that has no meaning for these sizes.
Error valueError(const Program &program, uint32_t value);

/// The value as an expression of symbols, for people: "batch*384+1". Cut off
/// when long.
std::string expressionText(const Program &program, uint32_t value);

} // namespace knapper
