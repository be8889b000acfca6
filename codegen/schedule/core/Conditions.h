// Requirements of a schedule on sizes. On numbers they are decided at once; on
// symbols they become terms of a guard.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

/// `holds`: no requirement is known to fail. `guard`: those on symbols.
class Conditions {
public:
  void multiple(ts::Dim dim, int64_t of) {
    int64_t known = dim.knownDivisor();
    if (!known || known % of == 0) // 0: the constant 0
      return;
    if (dim.asConstant())
      holds = false;
    else
      require(dim.mod(dim.like(of)), ts::ComparePredicate::eq, 0);
  }
  void positive(ts::Dim dim) {
    if (std::optional<int64_t> number = dim.asConstant())
      holds &= *number > 0;
    else
      require(dim, ts::ComparePredicate::gt, 0);
  }
  void require(ts::Dim dim, ts::ComparePredicate predicate, int64_t number) {
    Guard::Term term{dim, predicate, dim.like(number)};
    for (const Guard::Term &other : guard.terms)
      if (other.lhs == term.lhs && other.predicate == predicate)
        return;
    guard.terms.push_back(term);
  }

  bool holds = true;
  Guard guard;
};

} // namespace knapper
