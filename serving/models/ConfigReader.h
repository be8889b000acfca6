// Fields of a config.json. What is asked for is noted: a field that nobody
// asked for and that may change results is an error, not ignored.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace knapper::serving {

/// What is made of each layer must stay small before its weights are found.
inline constexpr int64_t mostLayers = 10'000;

/// Errors are sticky: the first wrong field is what `finish` says. A field that
/// is null counts as absent. Used by one thread at a time.
class ConfigReader {
public:
  static Expected<ConfigReader> open(const std::string &path);
  ConfigReader(nlohmann::json fields, std::string path)
      : fields(std::move(fields)), path(std::move(path)) {}

  /// 0 after an error.
  int64_t integer(const std::string &name,
                  std::optional<int64_t> fallback = std::nullopt);
  /// How many layers there are; 0 for more than `mostLayers`, or less than 0.
  int64_t layers(const std::string &name);
  double real(const std::string &name,
              std::optional<double> fallback = std::nullopt);
  bool flag(const std::string &name, bool fallback = false);
  std::string text(const std::string &name,
                   std::optional<std::string> fallback = std::nullopt);
  /// A number or a list of numbers that a token may have; empty if absent.
  Expected<std::vector<int32_t>> integers(const std::string &name);
  /// Empty if absent.
  std::vector<std::string> texts(const std::string &name);
  /// Empty if absent.
  std::vector<double> reals(const std::string &name);
  bool has(const std::string &name) const;
  /// Also where it is null.
  bool mentions(const std::string &name) const { return fields.contains(name); }
  /// An object as a reader of its own, with the path for messages; its errors
  /// are to be joined by `join`.
  ConfigReader object(const std::string &name);
  void join(ConfigReader &inner, bool all = true);
  /// The field must have this value if it is there at all.
  void expect(const std::string &name, const nlohmann::json &value);
  /// These mean nothing for the results.
  void ignore(std::initializer_list<const char *> names);
  void fail(const std::string &name, std::string what, std::string hint = {});

  /// The first error: a wrong field, or one that nobody asked for. Fields that
  /// are null, false or empty ask for nothing.
  Status finish() const;
  const std::string &where() const { return path; }

private:
  const nlohmann::json *find(const std::string &name);

  nlohmann::json fields;
  std::string path;
  std::set<std::string> asked;
  std::optional<Error> error;
};

} // namespace knapper::serving
