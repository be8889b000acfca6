#include "runtime/artefact/WholeFiles.h"

#include "runtime/artefact/Artefact.h"
#include "runtime/artefact/ArtefactWriter.h"
#include "runtime/testing/TestArtefact.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

using namespace knapper;
using namespace knapper::testing;
namespace fs = std::filesystem;

namespace {

/// A cache folder of the test's own.
class WholeFiles : public ::testing::Test {
protected:
  fs::path cache = fs::path(::testing::TempDir()) /
                   ("whole-files-" + std::to_string(getpid()));
  void SetUp() override { setenv("XDG_CACHE_HOME", cache.c_str(), 1); }
  void TearDown() override {
    fs::remove_all(cache);
    unsetenv("XDG_CACHE_HOME");
  }
  size_t marks() const {
    fs::path where = cache / "knapper" / "whole";
    return fs::exists(where) ? std::distance(fs::directory_iterator(where), {})
                             : 0;
  }
};

struct stat longUnchanged() {
  struct stat info = {};
  info.st_ino = 7;
  info.st_size = 1 << 30;
  info.st_mtim = info.st_ctim = {1000, 5};
  return info;
}

} // namespace

TEST_F(WholeFiles, AStateIsKnownOnceItIsMarked) {
  struct stat info = longUnchanged();
  EXPECT_FALSE(FileState(info).isKnownWhole());
  FileState(info).markWhole();
  FileState(info).markWhole();
  EXPECT_TRUE(FileState(info).isKnownWhole());
  EXPECT_EQ(marks(), 1u);
  auto other = [&](auto &&change) {
    struct stat changed = info;
    change(changed);
    return FileState(changed).isKnownWhole();
  };
  EXPECT_FALSE(other([](struct stat &s) { s.st_dev = 1; }));
  EXPECT_FALSE(other([](struct stat &s) { s.st_ino = 8; }));
  EXPECT_FALSE(other([](struct stat &s) { ++s.st_size; }));
  EXPECT_FALSE(other([](struct stat &s) { ++s.st_mtim.tv_nsec; }));
  EXPECT_FALSE(other([](struct stat &s) { ++s.st_ctim.tv_nsec; }));
}

TEST_F(WholeFiles, ALineIsKeptOfAState) {
  struct stat info = longUnchanged();
  FileState state(info);
  EXPECT_EQ(state.keptLine("lines"), "");
  state.keepLine("lines", "a hash");
  EXPECT_EQ(FileState(info).keptLine("lines"), "a hash");
  EXPECT_EQ(FileState(info).keptLine("others"), "");
  ++info.st_mtim.tv_nsec;
  EXPECT_EQ(FileState(info).keptLine("lines"), "");
  state.keepLine("lines", "another");
  EXPECT_EQ(state.keptLine("lines"), "another");
  state.keepLine("lines", std::string(201, 'x'));
  EXPECT_EQ(state.keptLine("lines"), "another");
  FileState().keepLine("lines", "nobody's");
  EXPECT_EQ(FileState().keptLine("lines"), "");
  // One file: nothing of the writing is left. What was cut is no line.
  fs::path folder = cache / "knapper" / "lines";
  std::vector<fs::path> files;
  for (const auto &entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  for (const char *damaged : {"anoth", ""}) {
    std::ofstream(files[0], std::ios::trunc) << damaged;
    EXPECT_EQ(state.keptLine("lines"), "");
  }
}

TEST_F(WholeFiles, ThreadsKeepOneLineAtATime) {
  FileState state(longUnchanged());
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c', 'd'})
    threads.emplace_back([&state, letter] {
      for (int i = 0; i < 300; ++i) {
        state.keepLine("lines",
                       std::string(size_t(letter - 'a') * 40 + 1, letter));
        std::string kept = state.keptLine("lines");
        ASSERT_FALSE(kept.empty());
        EXPECT_EQ(kept, std::string(size_t(kept[0] - 'a') * 40 + 1, kept[0]));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  fs::path folder = cache / "knapper" / "lines";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(WholeFiles, WhatHasJustChangedIsNotMarked) {
  struct stat info = longUnchanged();
  info.st_ctim.tv_sec = time(nullptr);
  FileState(info).markWhole();
  FileState().markWhole();
  EXPECT_EQ(marks(), 0u);
}

TEST_F(WholeFiles, WithoutAFolderNothingIsMarked) {
  fs::create_directories(cache.parent_path());
  std::ofstream(cache) << "a file where the folder would be";
  FileState(longUnchanged()).markWhole();
  EXPECT_FALSE(FileState(longUnchanged()).isKnownWhole());
}

TEST_F(WholeFiles, OldMarksGo) {
  struct stat info = longUnchanged();
  for (int i = 0; i < 12; ++i, ++info.st_ino)
    FileState(info).markWhole(/*most=*/10);
  EXPECT_LE(marks(), 10u);
  --info.st_ino;
  EXPECT_TRUE(FileState(info).isKnownWhole());
}

TEST_F(WholeFiles, AFileIsComparedAgainOnceItChanges) {
  std::string path = ::testing::TempDir() + "/whole-file.knap";
  TestArtefact a;
  uint32_t n = a.symbol("n", 0, 64);
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  uint32_t c = a.constantBuffer(std::vector<float>(5 << 20, 1.0f));
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  a.launch(a.region(), "add", {x, c, y}, n);
  std::vector<std::byte> bytes = a.bytes();
  auto isKnown = [&](ConstantChecks checks) {
    auto artefact = Artefact::load(path, {checks, 2});
    EXPECT_TRUE(artefact) << artefact.error().message();
    return !(*artefact)->checksBeforeUse();
  };
  // Two seconds after a change a file may be marked: an attempt that other work
  // on the machine made so long says nothing.
  bool known = false;
  auto seconds = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20 && seconds > std::chrono::seconds(1); ++i) {
    fs::remove_all(cache);
    auto start = std::chrono::steady_clock::now();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    isKnown(ConstantChecks::atLoad);
    known = isKnown(ConstantChecks::beforeUse);
    seconds = std::chrono::steady_clock::now() - start;
  }
  EXPECT_FALSE(known) << "it has just changed";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_FALSE(isKnown(ConstantChecks::beforeUse));
  isKnown(ConstantChecks::atLoad);
  EXPECT_TRUE(isKnown(ConstantChecks::beforeUse));
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 + 77);
    file.put(char(0x5a));
  }
  EXPECT_FALSE(isKnown(ConstantChecks::beforeUse));
  EXPECT_FALSE(Artefact::load(path, {ConstantChecks::atLoad, 2}));
  EXPECT_EQ(marks(), 1u);
  fs::remove(path);
}
