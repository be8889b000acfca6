// What the key of the compile cache has of the model and of the options.
#include "compiler/kernels/UserKernels.h"
#include "compiler/pipeline/CacheKey.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <unistd.h>

using namespace knapper;
using ::testing::UnorderedElementsAre;

namespace {

// ONNX: a version of its format and an empty graph.
constexpr std::string_view kModel("\x08\x08\x3a\x00", 4),
    kOther("\x08\x09\x3a\x00", 4);

std::string keyOf(const Options &options, std::string_view bytes = kModel) {
  CompileInput input;
  input.bytes = bytes;
  Expected<CacheKey> key = cacheKey(input, options);
  EXPECT_TRUE(key) << key.error().message();
  return key ? key->hash() : std::string();
}

void change(std::string &value) { value += "other"; }
void change(int64_t &value) { ++value; }
void change(bool &value) { value = !value; }

TEST(CacheKey, HasEveryOptionThatTheArtefactDependsOn) {
  std::string before = keyOf({});
  std::vector<std::string> absent;
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP)                       \
  if (Options options; std::string_view(NAME) != "records") {                  \
    change(options.FIELD);                                                     \
    if (keyOf(options) == before)                                              \
      absent.push_back(NAME);                                                  \
  }
#include "compiler/options/Options.def"
#undef OPTION
  // `kernels` are fields of the input, `model-format` a front end; what begins
  // with `start-from`, as text, is not kept.
  EXPECT_THAT(absent,
              UnorderedElementsAre("threads", "kernels", "stop-after",
                                   "model-format", "print-after",
                                   "dump-dir", "verify-each", "cache",
                                   "cache-dir", "cache-bytes", "verify-files"));
}

TEST(CacheKey, HasTheDataFilesOfAText) {
  std::string path =
      testing::TempDir() + "cache_key_data." + std::to_string(getpid());
  Options text;
  text.modelFormat = "mlir";
  CompileInput input;
  input.bytes = "text";
  input.dataFiles = {path};
  auto keyWith = [&](const char *data) {
    std::ofstream(path) << data;
    Expected<CacheKey> key = cacheKey(input, text);
    EXPECT_TRUE(key) << key.error().message();
    return key ? key->hash() : std::string();
  };
  std::string first = keyWith("weights");
  EXPECT_NE(first, keyWith("Weights"));
  EXPECT_EQ(first, keyWith("weights"));
  std::filesystem::remove(path);
}

TEST(CacheKey, HasTheKernelsOfTheUser) {
  CompileInput input;
  input.bytes = kModel;
  input.userKernels =
      std::make_shared<const std::vector<UserKernel>>(1, UserKernel());
  Expected<CacheKey> key = cacheKey(input, {});
  ASSERT_TRUE(key) << key.error().message();
  EXPECT_NE(key->hash(), keyOf({}));
}

TEST(CacheKey, HasTheFrontEndThatReadsTheModel) {
  Options onnx, stableHlo, torch, text;
  onnx.modelFormat = "onnx";
  stableHlo.modelFormat = "stablehlo";
  torch.modelFormat = "torch";
  text.modelFormat = "mlir";
  EXPECT_EQ(keyOf({}), keyOf(onnx)); // found and named
  EXPECT_NE(keyOf({}), keyOf(stableHlo));
  EXPECT_NE(keyOf({}), keyOf(torch));
  EXPECT_NE(keyOf({}), keyOf(text));
  EXPECT_NE(keyOf(stableHlo), keyOf(torch));
}

TEST(CacheKey, HasWhatRecordsSayNotWhereTheyLie) {
  namespace fs = std::filesystem;
  fs::path folder =
      fs::temp_directory_path() / ("knapper-key-" + std::to_string(getpid()));
  fs::create_directories(folder);
  auto with = [&](const char *name, const char *content) {
    std::ofstream(folder / name) << content;
    Options options;
    options.records = folder / name;
    return keyOf(options);
  };
  EXPECT_EQ(with("a", "one"), with("b", "one"));
  EXPECT_NE(with("a", "one"), with("a", "two"));
  EXPECT_NE(with("a", ""), keyOf({}));
  fs::remove_all(folder);
}

TEST(CacheKey, TakesListsForWhatTheyHold) {
  Options tight, loose, other;
  tight.isa = "x86-64-v4,x86-64-v3";
  loose.isa = " x86-64-v4 , x86-64-v3,";
  other.isa = "x86-64-v3,x86-64-v4";
  EXPECT_EQ(keyOf(tight), keyOf(loose));
  EXPECT_NE(keyOf(tight), keyOf(other)); // best first
}

TEST(CacheKey, HasTheModel) {
  EXPECT_EQ(keyOf({}, kModel), keyOf({}, kModel));
  EXPECT_NE(keyOf({}, kModel), keyOf({}, kOther));
}

} // namespace
