// The target to copy stays one that schedules can be chosen for.
#include "targets/null/NullTarget.h"

#include <gtest/gtest.h>

TEST(NullTarget, HasWhatTheModelsDivideBy) {
  knapper::TargetDesc t = knapper::nullTarget();
  EXPECT_EQ(t.kind, knapper::DeviceKind::null);
  EXPECT_GT(t.vectorBytes, 0u);
  EXPECT_GT(t.vectorRegisters, 0u);
  EXPECT_GT(t.fmaFlops, 0);
  EXPECT_GT(t.copyBandwidth, 0);
  EXPECT_GT(t.cacheBandwidth, 0);
  EXPECT_GT(t.l1Bytes, 0);
  EXPECT_GT(t.cores, 0u);
}
