#include "runtime/base/Text.h"

#include <gtest/gtest.h>

#include <limits>

namespace knapper {
namespace {

TEST(Text, PartsOneAfterTheOther) {
  std::string name = "x";
  std::string_view part = std::string_view("rank and more").substr(0, 4);
  const char *pointer = "of ";
  EXPECT_EQ(cat("input '", name, "' has ", part, " ", pointer, 3u),
            "input 'x' has rank of 3");
}

TEST(Text, NumbersAsToStringWritesThem) {
  EXPECT_EQ(cat(std::numeric_limits<int64_t>::min(), " ",
                std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(cat(int8_t(-1), " ", uint8_t(255), " ", true, " ", 1.5f),
            "-1 255 1 1.500000");
}

TEST(Text, TextWithZerosKeepsThem) {
  std::string zeros("a\0b", 3);
  EXPECT_EQ(cat(zeros, std::string_view(zeros).substr(1)).size(), 5u);
}

} // namespace
} // namespace knapper
