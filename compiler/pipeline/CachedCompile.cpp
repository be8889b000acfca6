// A compile through the cache. A cache that cannot be used costs time, not the
// result; one that the user named must work.
#include "compiler/pipeline/CacheKey.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/artefact/WholeFiles.h"
#include "runtime/base/Log.h"

#include <chrono>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <thread>

namespace knapper {
namespace {

/// Seconds since `start`, which becomes now.
double lap(std::chrono::steady_clock::time_point &start) {
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - start).count();
  start = now;
  return seconds;
}

void recall(CompileStats &stats, const std::string &text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  auto number = [&](const char *name) -> uint64_t {
    return json.is_object() && json[name].is_number_unsigned()
               ? json[name].get<uint64_t>()
               : 0;
  };
  stats.launches = unsigned(number("launches"));
  stats.kernels = unsigned(number("kernels"));
  stats.variants = unsigned(number("variants"));
  stats.recordsUsed = unsigned(number("records_used"));
  stats.recordsStale = unsigned(number("records_stale"));
  stats.artefactBytes = number("artefact_bytes");
  stats.fromCache = true;
}

bool isKnownWhole(int file) {
  struct stat info = {};
  return fstat(file, &info) == 0 && FileState(info).isKnownWhole();
}

/// The artefact of an entry that is whole: what is not is compiled again. Of
/// its constants, which may be a model's weights, the hashes are compared once
/// in each state of the file, or `always`.
std::optional<CacheHit> findIntact(const Cache &cache, const CacheKey &key,
                                   bool always) {
  std::optional<CacheHit> hit = cache.find(key);
  if (!hit)
    return hit;
  bool isKnown = !always && isKnownWhole(hit->artefact.get());
  auto threads = static_cast<int32_t>(std::thread::hardware_concurrency());
  auto loaded = Artefact::loadFd(
      hit->artefact.get(), cache.folder(),
      {isKnown ? ConstantChecks::beforeUse : ConstantChecks::atLoad, threads});
  if (loaded)
    return hit;
  log(LogLevel::warning, "compile cache: " + loaded.error().message());
  cache.drop(key.hash());
  return std::nullopt;
}

} // namespace

Expected<int>
compileThroughCache(const CompileInput &input, const Options &options,
                    const std::string &outputPath, CompileStats &stats,
                    const ProgressFn &progress, CompileFn compile) {
  auto clock = std::chrono::steady_clock::now();
  Expected<Cache> cache = Cache::open(options.cacheDir);
  if (!cache && !options.cacheDir.empty())
    return cache.takeError();
  if (!cache) {
    log(LogLevel::info, "compile cache: " + cache.error().message());
    return compile(input, options, outputPath, &stats, progress);
  }
  if (progress)
    progress("hash", 0, 1);
  ASSIGN_OR_RETURN(CacheKey key, cacheKey(input, options));
  stats.phases.push_back({"hash", lap(clock)});

  if (std::optional<CacheHit> hit =
          findIntact(*cache, key, options.verifyFiles)) {
    log(LogLevel::debug, "compile cache: found " + key.hash());
    recall(stats, hit->stats);
    stats.phases.push_back({"find", lap(clock)});
    if (progress)
      progress("done", 1, 1);
    if (outputPath.empty())
      return hit->artefact.take();
    TRY(copyFileTo(hit->artefact.get(), outputPath));
    stats.phases.push_back({"copy", lap(clock)});
    return -1;
  }

  Expected<int> fd = compile(input, options, outputPath, &stats, progress);
  // What shape functions say is not part of the key.
  if (!fd || stats.externals)
    return fd;
  lap(clock);
  CacheFile made(
      outputPath.empty() ? -1 : open(outputPath.c_str(), O_RDONLY | O_CLOEXEC));
  Status kept =
      cache->insert(key, outputPath.empty() ? *fd : made.get(), stats.json(),
                    static_cast<uint64_t>(options.cacheBytes));
  if (!kept)
    log(LogLevel::warning, "compile cache: " + kept.error().message());
  else
    log(LogLevel::debug, "compile cache: kept " + key.hash());
  stats.phases.push_back({"keep", lap(clock)});
  return fd;
}

} // namespace knapper
