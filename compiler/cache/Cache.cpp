#include "compiler/cache/Cache.h"
#include "runtime/base/CacheFolder.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace knapper {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *lockName = "lock";

std::string temporaryName() {
  static std::atomic<unsigned> counter{0};
  return cat("new.", getpid(), ".", counter++, ".tmp");
}

bool isHash(std::string_view name) {
  return name.size() == 32 &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Error failed(const std::string &what, const std::string &where) {
  return deviceError(what + ": " + systemErrorText(errno), where,
                     "give another folder with --cache-dir, or use --no-cache");
}

Status writeAll(int fd, std::string_view text, const std::string &where) {
  while (!text.empty()) {
    ssize_t done = write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return failed("cannot be written", where);
    text.remove_prefix(done);
  }
  return success();
}

/// mkdir -p; what is made is private.
void makeFolders(const std::string &path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700); // open says what is wrong
    if (at == std::string::npos)
      return;
  }
}

/// When an entry was used: the file of its key is touched then.
int64_t timeOf(const struct stat &status) {
  return int64_t(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
}

/// The last used first.
void sortByUse(std::vector<CacheEntry> &entries) {
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry &a, const CacheEntry &b) {
              return a.used != b.used ? a.used > b.used : a.hash < b.hash;
            });
}

std::string readAll(int fd) {
  std::string text;
  char buffer[16384];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, n);
  return text;
}

} // namespace

CacheFile &CacheFile::operator=(CacheFile &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}
CacheFile::~CacheFile() {
  if (fd >= 0)
    close(fd);
}

std::string CacheKey::hash() const {
  std::string text; // lengths first: no two lists of fields read the same
  for (const Field &field : fields)
    text += cat(field.name.size(), ":", field.name, field.value.size(), ":",
                field.value);
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(text.data(), text.size()));
  std::string hex;
  for (unsigned char byte : digest.digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string Cache::defaultFolder() {
  std::string base = cacheFolder();
  return base.empty() ? "" : base + "/compile";
}

Expected<Cache> Cache::open(std::string folder) {
  if (folder.empty())
    folder = defaultFolder();
  if (folder.empty())
    return userError("neither XDG_CACHE_HOME nor HOME is set", "compile cache",
                     "give a folder with --cache-dir, or use --no-cache");
  makeFolders(folder);
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) {
    Error error = userError("cannot be used: " + systemErrorText(errno),
                            "cache folder " + folder,
                            "give another folder with --cache-dir, or use "
                            "--no-cache");
    if (fd >= 0)
      close(fd);
    return error;
  }
  Cache cache(std::move(folder), fd);
  if (status.st_uid != geteuid() || (status.st_mode & 022))
    return userError(status.st_uid != geteuid()
                         ? "belongs to another user, whose code would be run"
                         : "can be written by others, whose code would be run",
                     "cache folder " + cache.path,
                     "chmod go-w it, or give another with --cache-dir");
  return cache;
}

Expected<CacheFile> Cache::lock(bool exclusive) const {
  CacheFile file(
      openat(dir.get(), lockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  int code = file.get() < 0 ? -1 : 0;
  while (code == 0 &&
         (code = flock(file.get(), exclusive ? LOCK_EX : LOCK_SH)) != 0 &&
         errno == EINTR)
    code = 0;
  if (code != 0)
    return failed("cannot be locked", "cache folder " + path);
  return file;
}

std::optional<CacheEntry> Cache::readEntry(const std::string &hash,
                                           std::string *stats) const {
  CacheFile file(
      openat(dir.get(), (hash + ".json").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status, artefact;
  if (file.get() < 0 || fstat(file.get(), &status) != 0 ||
      fstatat(dir.get(), (hash + ".knap").c_str(), &artefact, 0) != 0)
    return std::nullopt;
  Json json = Json::parse(readAll(file.get()), nullptr, false);
  if (!json.is_object() || !json["key"].is_object() ||
      !json["bytes"].is_number_unsigned() || !json["stats"].is_object())
    return std::nullopt;
  CacheEntry entry{hash, {}, json["bytes"].get<uint64_t>(), timeOf(status)};
  for (auto &[name, value] : json["key"].items())
    entry.key.fields.push_back(
        {name, value.is_string() ? value.get<std::string>() : value.dump()});
  if (entry.key.hash() != hash || entry.bytes != uint64_t(artefact.st_size))
    return std::nullopt;
  if (stats)
    *stats = json["stats"].dump();
  return entry;
}

std::optional<CacheHit> Cache::find(const CacheKey &key) const {
  Expected<CacheFile> held = lock(/*exclusive=*/false);
  if (!held)
    return std::nullopt;
  CacheHit hit;
  std::string hash = key.hash();
  if (!readEntry(hash, &hit.stats))
    return std::nullopt;
  hit.artefact = CacheFile(
      openat(dir.get(), (hash + ".knap").c_str(), O_RDONLY | O_CLOEXEC));
  if (hit.artefact.get() < 0)
    return std::nullopt;
  utimensat(dir.get(), (hash + ".json").c_str(), nullptr, 0);
  return hit;
}

Status Cache::insert(const CacheKey &key, int artefact,
                     const std::string &stats, uint64_t limit) const {
  struct stat status;
  if (fstat(artefact, &status) != 0)
    return failed("cannot be read", "the artefact");
  if (uint64_t(status.st_size) > limit)
    return success();
  std::string where = "cache folder " + path, hash = key.hash();
  std::string names[2] = {temporaryName(), temporaryName()};
  Json json = {{"key", Json::object()},
               {"bytes", uint64_t(status.st_size)},
               {"created", int64_t(time(nullptr))},
               {"stats", Json::parse(stats, nullptr, false)}};
  for (const CacheKey::Field &field : key.fields)
    json["key"][field.name] = field.value;
  auto store = [&]() -> Status {
    for (bool isArtefact : {true, false}) {
      CacheFile file(openat(dir.get(), names[isArtefact ? 0 : 1].c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (file.get() < 0)
        return failed("cannot be written", where);
      Status written = isArtefact
                           ? copyFile(artefact, file.get(), where)
                           : writeAll(file.get(),
                                      json.dump(1, ' ', false,
                                                Json::error_handler_t::replace),
                                      where);
      if (!written)
        return written;
    }
    ASSIGN_OR_RETURN(CacheFile held, lock(/*exclusive=*/true));
    if (renameat(dir.get(), names[0].c_str(), dir.get(),
                 (hash + ".knap").c_str()) != 0 ||
        renameat(dir.get(), names[1].c_str(), dir.get(),
                 (hash + ".json").c_str()) != 0)
      return failed("cannot be written", where);
    std::vector<CacheEntry> entries = cleanLocked();
    uint64_t bytes = 0;
    for (const CacheEntry &entry : entries)
      bytes += entry.bytes;
    if (bytes > limit)
      pruneLocked(entries, std::max<uint64_t>(limit - limit / 8,
                                              uint64_t(status.st_size)));
    return success();
  };
  Status stored = store();
  if (!stored)
    for (const std::string &name : names)
      unlinkat(dir.get(), name.c_str(), 0);
  return stored;
}

void Cache::drop(const std::string &hash) const {
  if (Expected<CacheFile> held = lock(/*exclusive=*/true))
    for (const char *suffix : {".json", ".knap"})
      unlinkat(dir.get(), (hash + suffix).c_str(), 0);
}

static std::vector<std::string> namesIn(int folder) {
  std::vector<std::string> names;
  DIR *stream =
      fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!stream)
    return names;
  while (dirent *entry = readdir(stream))
    names.push_back(entry->d_name);
  closedir(stream);
  return names;
}

std::vector<CacheEntry> Cache::list() const {
  std::vector<CacheEntry> entries;
  for (const std::string &name : namesIn(dir.get()))
    if (name.ends_with(".json") && isHash(name.substr(0, name.size() - 5)))
      if (auto entry = readEntry(name.substr(0, name.size() - 5), nullptr))
        entries.push_back(std::move(*entry));
  sortByUse(entries);
  return entries;
}

std::vector<CacheEntry> Cache::cleanLocked() const {
  constexpr time_t interrupted = 3600; // seconds after which nobody writes it
  std::vector<CacheEntry> entries;
  struct stat status, artefact;
  for (const std::string &name : namesIn(dir.get())) {
    std::string stem = name.substr(0, name.find('.'));
    if (name.starts_with("new.") && name.ends_with(".tmp")) {
      if (fstatat(dir.get(), name.c_str(), &status, 0) == 0 &&
          status.st_mtime < time(nullptr) - interrupted)
        unlinkat(dir.get(), name.c_str(), 0);
    } else if (name.ends_with(".json") && isHash(stem) &&
               fstatat(dir.get(), name.c_str(), &status, 0) == 0 &&
               fstatat(dir.get(), (stem + ".knap").c_str(), &artefact, 0) == 0)
      entries.push_back({stem, {}, uint64_t(artefact.st_size), timeOf(status)});
  }
  sortByUse(entries);
  return entries;
}

Cache::Pruned Cache::pruneLocked(const std::vector<CacheEntry> &entries,
                                 uint64_t limit) const {
  Pruned pruned;
  std::set<std::string> kept;
  uint64_t total = 0;
  bool full = false;
  for (const CacheEntry &entry : entries) {
    full |= entry.bytes > limit - total;
    if (!full) {
      total += entry.bytes;
      kept.insert(entry.hash);
      continue;
    }
    ++pruned.entries;
    pruned.bytes += entry.bytes;
  }
  for (const std::string &name : namesIn(dir.get())) { // also halves of entries
    std::string stem = name.substr(0, name.find('.'));
    if ((name.ends_with(".json") || name.ends_with(".knap")) && isHash(stem) &&
        !kept.contains(stem))
      unlinkat(dir.get(), name.c_str(), 0);
  }
  return pruned;
}

Expected<Cache::Pruned> Cache::prune(uint64_t limit) const {
  ASSIGN_OR_RETURN(CacheFile held, lock(/*exclusive=*/true));
  cleanLocked();
  return pruneLocked(list(), limit);
}

const CacheKey::Field *firstDifference(const CacheKey &key,
                                       const CacheKey &entry,
                                       std::string *entryValue) {
  for (const CacheKey::Field &field : key.fields) {
    auto other = std::find_if(
        entry.fields.begin(), entry.fields.end(),
        [&](const CacheKey::Field &f) { return f.name == field.name; });
    if (other != entry.fields.end() && other->value == field.value)
      continue;
    if (entryValue)
      *entryValue = other == entry.fields.end() ? "" : other->value;
    return &field;
  }
  return nullptr;
}

const CacheEntry *nearestEntry(const CacheKey &key,
                               const std::vector<CacheEntry> &entries) {
  const CacheEntry *nearest = nullptr;
  ptrdiff_t most = -1;
  for (const CacheEntry &entry : entries) {
    ptrdiff_t equal = std::count_if(
        key.fields.begin(), key.fields.end(), [&](const CacheKey::Field &f) {
          return std::find(entry.key.fields.begin(), entry.key.fields.end(),
                           f) != entry.key.fields.end();
        });
    if (equal > most) {
      most = equal;
      nearest = &entry;
    }
  }
  return nearest;
}

Status copyFile(int from, int to, const std::string &where) {
  if (ioctl(to, FICLONE, from) == 0)
    return success(); // the two share their blocks until one is changed
  // Room for all of it at once makes the copy twice as fast. Where it cannot be
  // had, the copy says what is wrong.
  struct stat status;
  if (fstat(from, &status) == 0 && status.st_size > 0)
    (void)fallocate(to, 0, 0, status.st_size);
  off_t at = 0;
  bool inKernel = true;
  std::string buffer;
  while (true) {
    ssize_t done;
    if (inKernel) {
      done = copy_file_range(from, &at, to, nullptr, size_t(1) << 30, 0);
      if (done < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                       errno == EOPNOTSUPP || errno == EPERM)) {
        inKernel = false; // other file systems
        continue;
      }
    } else {
      buffer.resize(1 << 20);
      done = pread(from, buffer.data(), buffer.size(), at);
      if (done > 0) {
        at += done;
        TRY(writeAll(to, std::string_view(buffer.data(), size_t(done)), where));
      }
    }
    if (done == 0)
      return success();
    if (done < 0 && errno != EINTR)
      return failed("cannot be copied", where);
  }
}

Status copyFileTo(int from, const std::string &path) {
  ASSIGN_OR_RETURN(OutputFile to, OutputFile::create(path));
  TRY(copyFile(from, to.descriptor(), path));
  return to.commit();
}

} // namespace knapper
