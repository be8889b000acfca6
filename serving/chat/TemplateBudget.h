// How much a chat template may do: the bounds that `bound_jinja.py` puts into
// the template engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace knapper::serving {

/// Of one parse or rendering, on the thread that does it. The engine has no
/// place to hand it through, so it is found by thread.
class TemplateBudget {
public:
  struct Limits {
    uint64_t steps = 1'000'000; ///< statements and expressions
    uint64_t bytes = 128 << 20; ///< of all texts on the way
    int depth = 200;            ///< of nested expressions, blocks and macros
  };

  explicit TemplateBudget(Limits limits) : limits(limits), outer(current) {
    current = this;
  }
  TemplateBudget(const TemplateBudget &) = delete;
  TemplateBudget &operator=(const TemplateBudget &) = delete;
  ~TemplateBudget() { current = outer; }

  /// One statement or expression, with those inside it.
  struct Step {
    Step() : budget(current) {
      if (!budget)
        return;
      if (++budget->steps > budget->limits.steps)
        throw std::runtime_error("the template takes too many steps");
      if (budget->depth >= budget->limits.depth)
        throw std::runtime_error("the template is nested too deep");
      ++budget->depth;
    }
    Step(const Step &) = delete;
    Step &operator=(const Step &) = delete;
    ~Step() {
      if (budget)
        --budget->depth;
    }
    TemplateBudget *budget;
  };

  static void charge(uint64_t bytes) {
    if (current && (current->bytes += bytes) > current->limits.bytes)
      throw std::runtime_error("the template makes too much text");
  }
  /// What the parser takes for granted of a template that is sound.
  static void require(bool sound) {
    if (!sound)
      throw std::runtime_error("the template is damaged");
  }
  /// Columns of `what`: few, as a template may ask for them at every character
  /// of a text.
  static int width(int64_t asked, const char *what = "an indentation") {
    if (asked > 64)
      throw std::runtime_error(std::string(what) + " of more than 64 columns");
    return asked < 0 ? 0 : static_cast<int>(asked);
  }

private:
  static inline thread_local TemplateBudget *current = nullptr;
  Limits limits;
  TemplateBudget *outer;
  uint64_t steps = 0, bytes = 0;
  int depth = 0;
};

} // namespace knapper::serving
