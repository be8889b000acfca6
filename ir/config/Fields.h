//===- Fields.h - Typed kernel configurations as text ---------------------===//
//
// A configuration is a struct of typed fields (integers, bools, enums). Its
// template `fields(config, visit)` calls, once a field,
//
//   visit(name, field, otherwise, required)
//
// `name`: the field's key in dumps, reports and labels. `otherwise`: the value
// that a missing key means. `required`: the key is always written and must be
// there. The key that others' `required` depends on is visited first.
//
// A configuration that can be tuned has a template `space(config, visit)`
// beside it, which calls, once a field,
//
//   visit(field, {values})
//
// `values`: what may be tried instead of what the field has, the likeliest
// first. They may depend on the fields that are decided before. A bool's are
// false and true without a row. A schedule leaves out what its kernel forbids
// (codegen/schedule/core/Knobs.h).
//
// An enum of a configuration has a function `largest(Enum)` beside it: its last
// enumerator. Everything that reads or writes the text form is here; other code
// uses the fields.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace knapper::config {

/// The text form: numbers by key.
using Parameters = std::map<std::string, int64_t>;

constexpr int64_t largest(bool) { return 1; }
constexpr int64_t largest(int64_t) {
  return std::numeric_limits<int64_t>::max();
}

template <class Config> Parameters print(const Config &config) {
  Parameters printed;
  Config::fields(
      config, [&](const char *name, auto field, auto otherwise, bool required) {
        if (required || field != otherwise)
          printed[name] = static_cast<int64_t>(field);
      });
  return printed;
}

/// Fills `config`. Returns what is wrong with `given`; empty: nothing is.
template <class Config>
std::string parse(const Parameters &given, Config &config) {
  std::string problem;
  Parameters unknown = given;
  Config::fields(config, [&](const char *name, auto &field, auto otherwise,
                             bool required) {
    unknown.erase(name);
    field = otherwise;
    auto entry = given.find(name);
    if (!problem.empty() || (entry == given.end() && !required))
      return;
    if (entry == given.end())
      problem = "has no '" + std::string(name) + "'";
    else if (entry->second < 0 ||
             entry->second > static_cast<int64_t>(largest(field)))
      problem = "has " + std::string(name) + " = " +
                std::to_string(entry->second) + ", which there is not";
    else
      field = static_cast<std::decay_t<decltype(field)>>(entry->second);
  });
  if (problem.empty() && !unknown.empty())
    problem = "has an unknown '" + unknown.begin()->first + "'";
  return problem;
}

/// The key of `field`, which is one of `config`'s.
template <class Config, class Field>
const char *keyOf(const Config &config, const Field &field) {
  const char *key = nullptr;
  Config::fields(config, [&](const char *name, const auto &each, auto, bool) {
    if (static_cast<const void *>(&each) == &field)
      key = name;
  });
  return key;
}

/// The values of `field` in the space of `config`; empty: it has no row there.
template <class Config, class Field>
std::vector<int64_t> spaceOf(const Config &config, const Field &field) {
  std::vector<int64_t> found;
  if constexpr (std::is_same_v<Field, bool>)
    found = {0, 1};
  if constexpr (requires { Config::space(config, [](auto &&...) {}); })
    Config::space(config,
                  [&](const auto &each, std::initializer_list<int64_t> values) {
                    if (static_cast<const void *>(&each) == &field)
                      found = values;
                  });
  return found;
}

/// The text form as an attribute.
mlir::DictionaryAttr attributeOf(const Parameters &parameters,
                                 mlir::MLIRContext *context);
/// Fills `parameters`. Returns what is wrong with the entries; empty: nothing.
std::string parametersOf(mlir::DictionaryAttr attribute,
                         Parameters &parameters);

/// As `parse`, of an attribute.
template <class Config>
std::string parse(mlir::DictionaryAttr attribute, Config &config) {
  Parameters parameters;
  std::string problem = parametersOf(attribute, parameters);
  return problem.empty() ? parse(parameters, config) : problem;
}

} // namespace knapper::config
