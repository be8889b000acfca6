// What of a GPU's code needs no GPU: how it is cut. That pieces run is the
// conformance suite's.
#include "runtime/drivers/cuda/PtxPieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper::cuda;
using ::testing::IsEmpty;

TEST(PtxPieces, AreCutAtTheirMarks) {
  std::string text =
      ".version 8.0\n.target sm_90a\n\n// kernel a\n.entry a {}\n"
      "// a remark\n// kernel b c\n.entry b {}\n.entry c {}\n";
  PtxPieces ptx = PtxPieces::of(text);
  EXPECT_EQ(ptx.head, ".version 8.0\n.target sm_90a\n");
  ASSERT_EQ(ptx.pieces.size(), 2u);
  EXPECT_EQ(ptx.pieceOf.at("a"), 0u);
  EXPECT_EQ(ptx.pieceOf.at("b"), 1u);
  EXPECT_EQ(ptx.pieceOf.at("c"), 1u);
  size_t second[] = {1}, both[] = {0, 1};
  EXPECT_EQ(ptx.joined(second), ".version 8.0\n.target sm_90a\n\n// kernel b "
                                "c\n.entry b {}\n.entry c {}\n\n");
  EXPECT_EQ(ptx.joined(both), text + "\n");
}

TEST(PtxPieces, WithoutMarksThereAreNone) {
  PtxPieces ptx = PtxPieces::of(".version 8.0\n.entry a {}\n");
  EXPECT_THAT(ptx.pieces, IsEmpty());
  EXPECT_EQ(ptx.head, ".version 8.0\n.entry a {}\n");
}
