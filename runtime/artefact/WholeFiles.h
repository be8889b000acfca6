// Which files were found whole, so that a file's constants are compared with
// their hashes once and not in every process.
//
// A mark is an empty file in cacheFolder()/whole whose name says which file in
// which state: device, inode, size and the times of its last change. Any write
// changes them. Without a cache folder nothing is marked. Lines about files are
// kept likewise, in folders beside it.
#pragma once

#include <cstdint>
#include <string>

struct stat;

namespace knapper {

/// The state that a file is in. Threads may share it.
class FileState {
public:
  FileState() = default; ///< of no file: never known, never marked
  /// A file that was changed less than two seconds ago may be changed again
  /// without that its times tell: it is taken for none.
  explicit FileState(const struct stat &info);

  /// Whether it was marked, by this process or another.
  bool isKnownWhole() const;
  /// Marks it. What cannot be written is not marked. The oldest marks go when
  /// there are more than `most`.
  void markWhole(unsigned most = 1000) const;

  /// The line that was kept of the file in this state in a folder of
  /// cacheFolder(), "" for none.
  std::string keptLine(const std::string &folder) const;
  /// Keeps one, of at most 200 bytes, for this and other processes.
  void keepLine(const std::string &folder, const std::string &line,
                unsigned most = 1000) const;
  /// States that may not be kept are equal to each other.
  friend bool operator==(const FileState &, const FileState &) = default;

private:
  std::string name; // of the mark; empty: none
};

} // namespace knapper
