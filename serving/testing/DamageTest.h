// What tests of damaged input share: a folder of their own, and how much is
// drawn.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace knapper::serving {

/// A folder that lives as long as one test. `KNAPPER_FUZZ_CASES` and
/// `KNAPPER_FUZZ_SEED` say how many cases are drawn, and from which seed.
class DamageTest : public testing::Test {
protected:
  explicit DamageTest(uint64_t usualCases)
      : cases(setting("KNAPPER_FUZZ_CASES", usualCases)) {}

  void SetUp() override {
    auto *test = testing::UnitTest::GetInstance()->current_test_info();
    folder = testing::TempDir() + "/" + test->test_suite_name() + "-" +
             std::to_string(getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string &name, const std::string &text) const {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }

  static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
  }

  uint64_t cases;
  uint64_t seed = setting("KNAPPER_FUZZ_SEED", 1);
  std::string folder;
};

} // namespace knapper::serving
