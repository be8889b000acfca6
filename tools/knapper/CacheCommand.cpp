#include "compiler/cache/Cache.h"
#include "compiler/pipeline/CacheKey.h"
#include "tools/knapper/CompilerFlags.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

namespace knapper::cli {
namespace {

struct CacheArguments {
  std::string folder, model;
  int64_t bytes = -1, limit = 20;
  bool all = false, json = false;
  CompilerFlags flags;
};

std::string valueOf(const CacheKey &key, std::string_view name) {
  for (const CacheKey::Field &field : key.fields)
    if (field.name == name)
      return field.value;
  return "";
}

/// The folder of --cache-dir, of the environment, or the default.
Expected<Cache> openCache(const CacheArguments &arguments) {
  std::string folder = arguments.folder;
  if (folder.empty()) {
    Options options;
    TRY(setOptionsFromEnvironment(options));
    folder = options.cacheDir;
  }
  return Cache::open(folder);
}

nlohmann::ordered_json jsonOf(const CacheKey &key) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const CacheKey::Field &field : key.fields)
    json[field.name] = field.value;
  return json;
}

void printJson(const nlohmann::ordered_json &json) {
  print(json.dump(2, ' ', false,
                  nlohmann::ordered_json::error_handler_t::replace) +
        "\n");
}

Status list(const CacheArguments &arguments) {
  ASSIGN_OR_RETURN(Cache cache, openCache(arguments));
  std::vector<CacheEntry> entries = cache.list();
  if (arguments.json) {
    auto json = nlohmann::ordered_json::array();
    for (const CacheEntry &entry : entries)
      json.push_back({{"hash", entry.hash},
                      {"bytes", entry.bytes},
                      {"used", double(entry.used) * 1e-9},
                      {"key", jsonOf(entry.key)}});
    printJson(json);
    return success();
  }
  double total = 0;
  for (const CacheEntry &entry : entries)
    total += double(entry.bytes);
  print(format("%zu entries, %s in %s\n", entries.size(),
               bytesText(total).c_str(), printable(cache.folder()).c_str()));
  auto shown = std::min(entries.size(), static_cast<size_t>(arguments.limit));
  for (const CacheEntry &entry : std::span(entries).first(shown)) {
    char when[32] = "";
    time_t used = entry.used / 1000000000;
    tm local;
    if (localtime_r(&used, &local))
      strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    print(format("%s  %10s  %s  %s  %s\n", entry.hash.c_str(),
                 bytesText(double(entry.bytes)).c_str(), when,
                 printable(valueOf(entry.key, "name")).c_str(),
                 printable(valueOf(entry.key, "isa")).c_str()));
  }
  if (shown < entries.size())
    print(format("and %zu more: --limit N shows N\n", entries.size() - shown));
  return success();
}

Status explain(const CacheArguments &arguments) {
  ASSIGN_OR_RETURN(Options options, arguments.flags.options());
  Expected<Cache> cache = Cache::open(options.cacheDir);
  if (!cache)
    return cache.takeError();
  CompileInput named;
  named.path = arguments.model;
  ASSIGN_OR_RETURN(CompileInput input, withUserKernels(named, options));
  ASSIGN_OR_RETURN(CacheKey key, cacheKey(input, options));
  std::vector<CacheEntry> entries = cache->list();
  const CacheEntry *nearest = nearestEntry(key, entries);
  std::string other;
  const CacheKey::Field *differs =
      nearest ? firstDifference(key, nearest->key, &other) : nullptr;
  bool cached = nearest && !differs;
  if (arguments.json) {
    nlohmann::ordered_json json = {
        {"hash", key.hash()}, {"cached", cached}, {"key", jsonOf(key)}};
    if (differs) {
      json["differs"] = differs->name;
      json["value"] = differs->value;
      json["nearest"] = nearest->hash;
      json["nearest_value"] = other;
    }
    printJson(json);
    return success();
  }
  std::string model = printable(arguments.model);
  if (cached)
    print(format("%s is in the cache: %s\n", model.c_str(),
                 nearest->hash.c_str()));
  else if (!nearest)
    print(format("%s is not in the cache, which is empty\n", model.c_str()));
  else
    print(format("%s is not in the cache: '%s' differs from the nearest "
                 "entry\n  now      %s\n  entry    %s\n  nearest  %s\n",
                 model.c_str(), differs->name.c_str(),
                 printable(differs->value).c_str(), printable(other).c_str(),
                 nearest->hash.c_str()));
  for (const CacheKey::Field &field : key.fields)
    print(format("  %-14s %s\n", field.name.c_str(),
                 printable(field.value).c_str()));
  return success();
}

Status prune(const CacheArguments &arguments) {
  if (arguments.all == (arguments.bytes >= 0))
    return userError("give one of --all and --bytes N", "command line",
                     "knapper cache prune --bytes 1000000000");
  ASSIGN_OR_RETURN(Cache cache, openCache(arguments));
  ASSIGN_OR_RETURN(
      Cache::Pruned pruned,
      cache.prune(arguments.all ? 0 : static_cast<uint64_t>(arguments.bytes)));
  print(format("%u entries removed, %s\n", pruned.entries,
               bytesText(double(pruned.bytes)).c_str()));
  return success();
}

} // namespace

void addCache(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<CacheArguments>();
  CLI::App *command =
      app.add_subcommand("cache", "Shows and prunes the compile cache");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *help,
                 Status (*action)(const CacheArguments &)) {
    CLI::App *below = command->add_subcommand(name, help);
    below->callback([&session, arguments, action] {
      session.action = [arguments, action] { return action(*arguments); };
    });
    return below;
  };
  auto addFolder = [&](CLI::App *below) {
    below
        ->add_option("--cache-dir", arguments->folder,
                     "The folder [$XDG_CACHE_HOME/knapper/compile]")
        ->type_name("FOLDER");
  };
  CLI::App *listing = add("list", "What is kept, the last used first", list);
  addFolder(listing);
  listing->add_flag("--json", arguments->json, "Print JSON, of all entries");
  listing->add_option("--limit", arguments->limit, "Show at most so many")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  listing->footer("For example:\n"
                  "  knapper cache list --limit 10");
  CLI::App *explaining = add(
      "explain", "Whether a compile would be found, and if not, what differs",
      explain);
  explaining->add_option("model", arguments->model, "An .onnx file")
      ->required()
      ->type_name("FILE");
  explaining->add_flag("--json", arguments->json, "Print JSON");
  arguments->flags.addTo(*explaining);
  explaining->footer("Give the flags that the compile was given. For example:\n"
                     "  knapper cache explain model.onnx --dtype bf16");
  CLI::App *pruning =
      add("prune", "Removes what was not used for longest", prune);
  addFolder(pruning);
  pruning->add_option("--bytes", arguments->bytes, "Keep at most so many bytes")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  pruning->add_flag("--all", arguments->all, "Remove everything");
  pruning->footer("For example:\n"
                  "  knapper cache prune --bytes 1000000000\n"
                  "  knapper cache prune --all");
  command->footer("For example:\n"
                  "  knapper cache list\n"
                  "  knapper cache explain model.onnx\n"
                  "  knapper cache prune --bytes 1000000000");
}

} // namespace knapper::cli
