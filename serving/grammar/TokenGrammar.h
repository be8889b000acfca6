// What a grammar lets follow, token by token, as the engine sees it.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <memory>
#include <span>

namespace knapper::serving {

/// The place of one sequence in its grammar. Of one thread.
class GrammarCursor {
public:
  virtual ~GrammarCursor() = default;

  struct Next {
    /// A bit a token, token 0 lowest; those beyond its end are not allowed. The
    /// cursor's, until its next call.
    std::span<const uint32_t> allowed;
    bool canGoOn = false; ///< some token of a text may follow
    bool canEnd = false;  ///< the text is complete
  };
  /// Where the text is complete the model's end tokens are allowed too, unless
  /// `ends` is false. UserError when that takes too long.
  virtual Expected<Next> next(bool ends) = 0;
  /// Takes a token that was allowed and is no end. UserError for another.
  virtual Status accept(int32_t token) = 0;
  /// The text is complete as it is.
  virtual bool canEnd() const = 0;
};

/// A grammar that is compiled for a model's tokens. Thread-safe.
class TokenGrammar {
public:
  virtual ~TokenGrammar() = default;
  virtual std::unique_ptr<GrammarCursor> begin() const = 0;
  /// Of memory, about; without what it shares with others.
  virtual size_t bytes() const = 0;
};

} // namespace knapper::serving
