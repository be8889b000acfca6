// A wish that work should end.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>

namespace knapper {

/// A flag of the caller's. Any thread may set it, atomically, while the work
/// goes on; it outlives the work.
class Cancel {
public:
  Cancel() = default; ///< nobody wishes
  explicit Cancel(const int32_t *flag) : flag(flag) {}
  bool isWished() const {
    return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
  }

private:
  const int32_t *flag = nullptr;
};

/// The error of a run that was ended so.
inline Error cancelledRun() {
  return userError("the run was cancelled", "run");
}

} // namespace knapper
