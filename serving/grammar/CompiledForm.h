// A compiled grammar as bytes, which the process that compiles sends, and the
// masks that grammars have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace xgrammar {
struct AdaptiveTokenMask;
class CompiledGrammar;
class TokenizerInfo;
} // namespace xgrammar

namespace knapper::serving {

/// Equal masks once in memory: those of a digit or of a string's characters
/// are in most grammars. Thread-safe. Outlived by no mask: masks own it.
class MaskPool : public std::enable_shared_from_this<MaskPool> {
public:
  using Mask = xgrammar::AdaptiveTokenMask;
  /// The mask that is there already, or this one from now on. Equal masks have
  /// equal bytes, as writeCompiled has them.
  std::shared_ptr<const Mask> intern(std::string_view bytes, Mask mask);
  /// Of the masks that somebody holds.
  size_t bytes() const;

private:
  void forget(size_t hash, size_t bytes);

  mutable std::mutex mutex; ///< guards what follows
  std::unordered_multimap<size_t, std::weak_ptr<const Mask>> masks; ///< by hash
  size_t held = 0;
};

/// For a process of the same executable: numbers are the machine's.
std::string writeCompiled(const xgrammar::CompiledGrammar &grammar);
/// Throws std::runtime_error where the bytes are damaged or of another
/// vocabulary.
xgrammar::CompiledGrammar readCompiled(std::string_view bytes,
                                       const xgrammar::TokenizerInfo &tokens,
                                       MaskPool &pool);
/// Without the masks, which are the pool's.
size_t ownBytes(const xgrammar::CompiledGrammar &grammar);

} // namespace knapper::serving
