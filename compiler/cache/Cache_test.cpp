#include "compiler/cache/Cache.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace knapper;
namespace fs = std::filesystem;

namespace {

CacheKey key(const std::string &model, const std::string &isa = "v3") {
  return {{{"model", model}, {"isa", isa}}};
}

CacheFile artefact(const std::string &content) {
  CacheFile file(memfd_create("artefact", MFD_CLOEXEC));
  EXPECT_EQ(write(file.get(), content.data(), content.size()),
            ssize_t(content.size()));
  return file;
}

std::string contentOf(const CacheHit &hit) {
  std::string text(64, '\0');
  text.resize(pread(hit.artefact.get(), text.data(), text.size(), 0));
  return text;
}

struct CacheTest : testing::Test {
  fs::path folder =
      fs::temp_directory_path() / ("knapper-cache-" + std::to_string(getpid()));
  void TearDown() override { fs::remove_all(folder); }
  Cache open() {
    Expected<Cache> cache = Cache::open(folder / "compile");
    EXPECT_TRUE(cache) << cache.error().message();
    return std::move(*cache);
  }
  void insert(const Cache &cache, const CacheKey &key,
              const std::string &content, uint64_t limit = 1000) {
    Status status =
        cache.insert(key, artefact(content).get(), "{\"launches\":7}", limit);
    EXPECT_TRUE(status) << status.error().message();
  }
};

TEST_F(CacheTest, FindsWhatWasInserted) {
  Cache cache = open();
  EXPECT_FALSE(cache.find(key("a")));
  insert(cache, key("a"), "code");
  std::optional<CacheHit> hit = cache.find(key("a"));
  ASSERT_TRUE(hit);
  EXPECT_EQ(contentOf(*hit), "code");
  EXPECT_EQ(hit->stats, "{\"launches\":7}");
  EXPECT_FALSE(cache.find(key("a", "v4")));
  struct stat status;
  ASSERT_EQ(stat((folder / "compile").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, FieldsAreNotRunTogether) {
  EXPECT_NE((CacheKey{{{"a", "bc"}}}.hash()), (CacheKey{{{"ab", "c"}}}.hash()));
  EXPECT_NE((CacheKey{{{"a", "1b"}}}.hash()), (CacheKey{{{"a1", "b"}}}.hash()));
}

TEST_F(CacheTest, DamagedEntriesAreAbsent) {
  Cache cache = open();
  insert(cache, key("a"), "code");
  std::string stem = folder / "compile" / key("a").hash();
  fs::resize_file(stem + ".knap", 2);
  EXPECT_FALSE(cache.find(key("a")));
  insert(cache, key("a"), "code");
  EXPECT_TRUE(cache.find(key("a")));
  std::ofstream(stem + ".json") << "{\"key\": 3";
  EXPECT_FALSE(cache.find(key("a")));
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CacheTest, DropsTheLongestUnused) {
  Cache cache = open();
  for (const char *model : {"a", "b", "c"}) {
    insert(cache, key(model), "0123456789");
    timespec times[2] = {{1000 + *model, 0}, {1000 + *model, 0}};
    std::string json = folder / "compile" / (key(model).hash() + ".json");
    ASSERT_EQ(utimensat(AT_FDCWD, json.c_str(), times, 0), 0);
  }
  EXPECT_TRUE(cache.find(key("a"))); // now the last used
  insert(cache, key("d"), "0123456789", 25);
  EXPECT_TRUE(cache.find(key("a")));
  EXPECT_FALSE(cache.find(key("b")));
  EXPECT_FALSE(cache.find(key("c")));
  EXPECT_TRUE(cache.find(key("d")));
  // The last used by far, whatever the clock's steps are.
  for (const char *model : {"a", "d"}) {
    timespec times[2] = {{1000, 0}, {1000, 0}};
    std::string json = folder / "compile" / (key(model).hash() + ".json");
    ASSERT_EQ(utimensat(AT_FDCWD, json.c_str(), times, 0), 0);
  }
  insert(cache, key("large"), "0123456789012345678901234567", 25);
  EXPECT_FALSE(cache.find(key("large"))); // would have evicted all
  EXPECT_TRUE(cache.find(key("d")));
}

// Code of a folder that another user can write would be run.
TEST_F(CacheTest, AFolderThatOthersWriteIsRefused) {
  open();
  fs::path path = folder / "compile";
  for (mode_t mode : {0720, 0702, 0777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    Expected<Cache> cache = Cache::open(path);
    ASSERT_FALSE(cache) << std::oct << mode;
    EXPECT_NE(cache.error().message().find("can be written by others"),
              std::string::npos);
  }
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(Cache::open(path));
}

// A full cache has room again: dropping one entry for each that comes would
// look through all of them every time.
TEST_F(CacheTest, AFullCacheGetsRoomForSeveral) {
  Cache cache = open();
  constexpr int most = 16;
  int drops = 0;
  size_t before = 0;
  for (int i = 0; i < 4 * most; ++i) {
    insert(cache, key(std::to_string(i).c_str()), "0123456789", 10 * most);
    size_t now = cache.list().size();
    EXPECT_LE(now, size_t(most));
    EXPECT_GE(now, std::min<size_t>(i + 1, most * 7 / 8));
    drops += now <= before;
    before = now;
  }
  EXPECT_LE(drops, 4 * most / 2);
  EXPECT_TRUE(cache.find(key(std::to_string(4 * most - 1).c_str())));
}

TEST_F(CacheTest, OneArtefactMayFillTheCache) {
  Cache cache = open();
  insert(cache, key("small"), "0123456789", 40);
  insert(cache, key("large"), std::string(38, 'x'), 40);
  EXPECT_TRUE(cache.find(key("large")));
  EXPECT_FALSE(cache.find(key("small")));
}

TEST_F(CacheTest, WhatIsOlderThanWhatGoesGoesToo) {
  Cache cache = open();
  for (const auto &[model, bytes] : {std::pair("a", 4), {"b", 40}, {"c", 4}}) {
    insert(cache, key(model), std::string(bytes, 'x'));
    timespec times[2] = {{1000 + *model, 0}, {1000 + *model, 0}};
    std::string json = folder / "compile" / (key(model).hash() + ".json");
    ASSERT_EQ(utimensat(AT_FDCWD, json.c_str(), times, 0), 0);
  }
  Expected<Cache::Pruned> pruned = cache.prune(20);
  ASSERT_TRUE(pruned) << pruned.error().message();
  EXPECT_EQ(pruned->entries, 2u);
  EXPECT_EQ(pruned->bytes, 44u);
  EXPECT_TRUE(cache.find(key("c")));
  EXPECT_FALSE(cache.find(key("b")));
  EXPECT_FALSE(cache.find(key("a")));
}

TEST_F(CacheTest, NamesTheFirstDifference) {
  Cache cache = open();
  insert(cache, key("a", "v3"), "1");
  insert(cache, key("b", "v4"), "2");
  std::vector<CacheEntry> entries = cache.list();
  const CacheEntry *nearest = nearestEntry(key("a", "v5"), entries);
  ASSERT_TRUE(nearest);
  std::string other;
  const CacheKey::Field *field =
      firstDifference(key("a", "v5"), nearest->key, &other);
  ASSERT_TRUE(field);
  EXPECT_EQ(field->name, "isa");
  EXPECT_EQ(other, "v3");
  EXPECT_FALSE(firstDifference(key("a", "v3"), nearest->key, nullptr));
}

TEST_F(CacheTest, RefusesFoldersThatOthersWrite) {
  open();
  fs::permissions(folder / "compile", fs::perms::all);
  Expected<Cache> cache = Cache::open(folder / "compile");
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().kind, ErrorKind::user);
  EXPECT_NE(cache.error().message().find("written by others"),
            std::string::npos);
}

TEST_F(CacheTest, ManyWritersOneEntry) {
  open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Cache cache = open();
      for (int i = 0; i < 20; ++i) {
        // Different lengths: a pair of files of two writers would not match.
        insert(cache, key("a"), std::string(10 + t, 'x'));
        std::optional<CacheHit> hit = cache.find(key("a"));
        ASSERT_TRUE(hit);
        size_t size = contentOf(*hit).size();
        EXPECT_TRUE(size >= 10 && size < 14);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &file : fs::directory_iterator(folder / "compile"))
    EXPECT_NE(file.path().extension(), ".tmp");
}

} // namespace
