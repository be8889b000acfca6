//===- Cache.h - Artefacts by what they were made from --------------------===//
//
// A private folder with two files an entry: HASH.knap and HASH.json (the fields
// of the key, sizes, what the compile did). HASH is XXH3-128 of the fields.
// Files appear by rename; a lock file orders what happens to pairs of them, so
// any number of processes may use one folder. The time of the .json is the time
// of last use.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace knapper {

/// Everything that an artefact depends on, in the order in which `explain`
/// compares.
struct CacheKey {
  struct Field {
    std::string name, value;
    bool operator==(const Field &) const = default;
  };
  std::vector<Field> fields;

  /// 32 hexadecimal digits.
  std::string hash() const;
};

struct CacheEntry {
  std::string hash;
  CacheKey key;
  uint64_t bytes = 0;
  int64_t used = 0; ///< nanoseconds since 1970
};

/// A file descriptor that is closed.
class CacheFile {
public:
  explicit CacheFile(int fd = -1) : fd(fd) {}
  CacheFile(CacheFile &&other) noexcept : fd(other.take()) {}
  CacheFile &operator=(CacheFile &&other) noexcept;
  ~CacheFile();
  int get() const { return fd; }
  int take() { return std::exchange(fd, -1); }

private:
  int fd;
};

struct CacheHit {
  CacheFile artefact;
  std::string stats; ///< JSON of the compile that made it
};

class Cache {
public:
  /// $XDG_CACHE_HOME/knapper/compile, or below ~/.cache; "" when neither
  /// variable is set.
  static std::string defaultFolder();
  /// Makes the folder if needed. An artefact is native code: a folder that
  /// belongs to someone else or that others can write is a UserError.
  static Expected<Cache> open(std::string folder);

  const std::string &folder() const { return path; }

  /// Marks the entry as used. What is damaged counts as absent.
  std::optional<CacheHit> find(const CacheKey &key) const;
  /// Copies the artefact behind `artefact` into the cache. If the artefacts
  /// then have more than `limit` bytes, drops the entries used longest ago
  /// until they have an eighth less, or the new one alone is left: of a full
  /// cache, few insertions drop anything. One artefact that is larger than
  /// `limit` is not kept.
  Status insert(const CacheKey &key, int artefact, const std::string &stats,
                uint64_t limit) const;
  void drop(const std::string &hash) const;

  /// The last used first.
  std::vector<CacheEntry> list() const;
  struct Pruned {
    unsigned entries = 0;
    uint64_t bytes = 0;
  };
  /// Down to `limit` bytes of artefacts, the longest unused first; damaged
  /// entries go, too.
  Expected<Pruned> prune(uint64_t limit) const;

private:
  Cache(std::string path, int folder) : path(std::move(path)), dir(folder) {}
  Expected<CacheFile> lock(bool exclusive) const;
  std::optional<CacheEntry> readEntry(const std::string &hash,
                                      std::string *stats) const;
  /// Drops what interrupted processes left behind. Returns the entries, the
  /// last used first, without their keys: it reads none of the thousands of
  /// files.
  std::vector<CacheEntry> cleanLocked() const;
  /// `entries`: the last used first; what is none of them is dropped.
  Pruned pruneLocked(const std::vector<CacheEntry> &entries,
                     uint64_t limit) const;

  std::string path;
  CacheFile dir;
};

/// The first field that keeps `key` from being `entry`; null if there is none.
const CacheKey::Field *firstDifference(const CacheKey &key,
                                       const CacheKey &entry,
                                       std::string *entryValue);
/// The entry with the most equal fields, of those the last used; null if the
/// list is empty.
const CacheEntry *nearestEntry(const CacheKey &key,
                               const std::vector<CacheEntry> &entries);

/// Copies a whole file into another that is empty.
Status copyFile(int from, int to, const std::string &where);
/// Copies to `path` under a temporary name that is renamed at the end.
Status copyFileTo(int from, const std::string &path);

} // namespace knapper
