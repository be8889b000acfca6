// Proposals from a sequence's own text: what followed the last tokens when they
// were there before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace knapper::serving {

/// Of one sequence. Takes about 100 bytes a token.
class NgramLookup {
public:
  /// Takes in what `tokens` has more than at the last call: the same sequence,
  /// longer.
  void extend(std::span<const int32_t> tokens);
  /// What may follow `tokens`, which were taken in: up to `most` tokens. Where
  /// the text before ends within them, they go on as a loop does. Empty:
  /// nothing is known.
  std::vector<int32_t> propose(std::span<const int32_t> tokens,
                               int32_t most) const;

private:
  // Longer ones first; shorter than two follow by chance.
  static constexpr std::array<size_t, 2> kLengths = {4, 2};
  static uint64_t hashOf(std::span<const int32_t> tokens);

  /// By the hash of so many tokens: the place behind their latest occurrence
  /// that another token follows.
  std::array<std::unordered_map<uint64_t, int32_t>, kLengths.size()> places;
  size_t taken = 0;
};

} // namespace knapper::serving
