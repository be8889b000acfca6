// Front ends as the pipeline sees them: found by name, offered by
// --model-format, and chosen by what a model begins with.
#include "compiler/options/Options.h"
#include "frontends/common/FrontEnd.h"

#include <gmock/gmock.h>

using namespace knapper;
using ::testing::HasSubstr;

namespace {

TEST(FrontEnds, HaveNamesOfTheirOwnThatTheOptionOffers) {
  std::string offered;
  for (const OptionRow &row : optionRows())
    if (row.name == "model-format")
      offered = std::string(row.values) + "|";
  for (const FrontEnd *frontEnd : allFrontEnds()) {
    EXPECT_EQ(findFrontEnd(frontEnd->name()), frontEnd);
    EXPECT_THAT(offered, HasSubstr("|" + std::string(frontEnd->name()) + "|"));
  }
  EXPECT_EQ(findFrontEnd("none"), nullptr);
  EXPECT_EQ(findFrontEnd(""), nullptr);
}

TEST(FrontEnds, AreChosenByTheFirstBytes) {
  EXPECT_EQ(frontEndFor({{}, std::string_view("ML\xefR\x06", 5)}).name(),
            "stablehlo");
  EXPECT_EQ(frontEndFor({{}, "\x08\x0a"}).name(), "onnx");
  EXPECT_EQ(frontEndFor({{}, ""}).name(), "onnx");
  EXPECT_EQ(frontEndFor({"/no/such/file", {}}).name(), "onnx");
}

TEST(FrontEnds, ReadNoMoreThanThereIs) {
  ModelInput input{{}, "abc"};
  EXPECT_EQ(input.begin(2), "ab");
  EXPECT_EQ(input.begin(8), "abc");
  EXPECT_EQ((ModelInput{"/no/such/file", {}}).begin(4), "");
  std::string read;
  EXPECT_FALSE((ModelInput{"/no/such/file", {}}).content(read));
}

} // namespace
