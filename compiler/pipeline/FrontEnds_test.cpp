// Front ends as the pipeline sees them: found by name, offered by
// --model-format, and chosen by what a model begins with.
#include "compiler/options/Options.h"
#include "frontends/common/FrontEnd.h"

#include <gmock/gmock.h>

using namespace knapper;
using ::testing::HasSubstr;

namespace {

std::string_view nameFor(const ModelInput &input) {
  Expected<const FrontEnd *> found = frontEndFor(input);
  return found ? (*found)->name() : std::string_view();
}

/// Throws whatever it is asked.
struct Throwing : FrontEnd {
  std::string_view name() const override { return "throwing"; }
  bool accepts(const ModelInput &input) const override {
    if (input.bytes == "memory")
      throw std::bad_alloc();
    throw std::runtime_error("of accepts");
  }
  Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  importModel(mlir::MLIRContext &, const ModelInput &, const DimNumbers &,
              ModelBuffers &) const override {
    throw 7;
  }
  Expected<std::vector<std::string>>
  otherFiles(const ModelInput &) const override {
    throw std::runtime_error("of files");
  }
};

void expectThrew(const Error &error, const char *doing, const char *what) {
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_EQ(error.where, "m.thrown");
  EXPECT_EQ(error.what,
            std::string("the front end 'throwing' threw while it ") + doing +
                ": " + what);
  EXPECT_THAT(error.hint, HasSubstr("--model-format"));
}

TEST(FrontEnds, WhatTheyThrowIsAnErrorThatNamesThem) {
  Throwing throwing;
  const FrontEnd *all[] = {&throwing};
  ModelInput input{"m.thrown", {}};
  Expected<const FrontEnd *> found = frontEndFor(input, all);
  ASSERT_FALSE(found);
  expectThrew(found.error(), "was asked whether it accepts it", "of accepts");
  auto files = otherFilesOf(throwing, input);
  ASSERT_FALSE(files);
  expectThrew(files.error(), "listed its files", "of files");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ModelBuffers buffers;
  auto made = guarded(throwing, "imported it", input, [&] {
    return throwing.importModel(context, input, {}, buffers);
  });
  ASSERT_FALSE(made);
  expectThrew(made.error(), "imported it", "no std::exception");
  // The caller's, who gives memory back.
  EXPECT_THROW((void)frontEndFor({{}, "memory"}, all), std::bad_alloc);
}

TEST(FrontEnds, NoTwoHaveOneName) {
  EXPECT_TRUE(checkFrontEnds(allFrontEnds()));
  Throwing first, second;
  const FrontEnd *all[] = {&first, allFrontEnds()[0], &second};
  Status status = checkFrontEnds(all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::internal);
  EXPECT_THAT(status.error().message(),
              HasSubstr("two front ends have the name 'throwing'"));
}

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
  EXPECT_EQ(nameFor({{}, std::string_view("ML\xefR\x06", 5)}), "stablehlo");
  EXPECT_EQ(nameFor({{}, "\x08\x0a"}), "onnx");
  EXPECT_EQ(nameFor({{}, ""}), "onnx");
  EXPECT_EQ(nameFor({"/no/such/file", {}}), "onnx");
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
