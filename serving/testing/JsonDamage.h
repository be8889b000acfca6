// Valid JSON made wrong in its parts: values of other types and ends, fields
// that are gone, stand twice or come from another place, and nesting.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace knapper::serving {

template <typename Json> class JsonDamage {
public:
  explicit JsonDamage(uint64_t seed) : random(seed * 7919 + 17) {}

  uint64_t below(uint64_t end) { return end ? random() % end : 0; }

  /// Some edits of the tree; now and then of its text.
  std::string apply(Json json) {
    for (uint64_t times = 1 + below(3); times > 0; --times)
      edit(json, json);
    std::string text =
        json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (below(20) == 0)
      text.resize(below(text.size() + 1));
    // Deeper than a tree that is copied or printed by recursion may be.
    if (below(200) == 0) {
      constexpr size_t depth = 200'000;
      size_t at = text.find(':', below(text.size()));
      if (at != std::string::npos)
        text.insert(at + 1, std::string(depth, '[') + std::string(depth, ']') +
                                ",\"rest\":");
    }
    return text;
  }

private:
  /// Any node: the tree is left at each level with one chance in three.
  Json &pick(Json &json) {
    Json *at = &json;
    while (at->is_structured() && !at->empty() && below(3) > 0) {
      auto it = at->begin();
      std::advance(it, below(at->size()));
      at = &*it;
    }
    return *at;
  }

  Json odd() {
    switch (below(22)) {
    case 0:
      return nullptr;
    case 1:
      return below(2) == 0;
    case 2:
      return -1;
    case 3:
      return 0;
    case 4:
      return 1;
    case 5:
      return INT32_MAX;
    case 6:
      return int64_t(INT32_MAX) + 1;
    case 7:
      return INT64_MIN;
    case 8:
      return UINT64_MAX;
    case 9:
      return 1e308;
    case 10:
      return -1e308;
    case 11:
      return 1e-320;
    case 12:
      return 0.5;
    case 13:
      return "";
    case 14:
      return std::string(1 + below(300), 'a');
    case 15:
      return Json::array();
    case 16:
      return Json::object();
    case 17:
      return Json::array({Json::array({nullptr, 1}), "x"});
    case 18:
      return std::string("a\0\xff", 3);
    case 19:
      return below(10'000'000);
    case 20:
      return int64_t(1) << below(63);
    default:
      return -1.5;
    }
  }

  void edit(Json &root, Json &within) {
    Json &at = pick(within);
    switch (below(10)) {
    case 0:
    case 1:
    case 2:
      at = odd();
      break;
    case 3: { // from another place
      Json copy = pick(root);
      at = std::move(copy);
      break;
    }
    case 4: // gone
      if (at.is_structured() && !at.empty()) {
        auto it = at.begin();
        std::advance(it, below(at.size()));
        at.erase(it);
      }
      break;
    case 5: // once more
      if (at.is_array() && !at.empty()) {
        Json copy = at[below(at.size())];
        for (uint64_t times = 1 + (below(8) == 0 ? below(200) : 0); times > 0;
             --times)
          at.push_back(copy);
      } else if (at.is_object()) {
        at["x" + std::to_string(below(3))] = odd();
      }
      break;
    case 6:
    case 7: // a little off
      if (at.is_number_integer())
        at = at.template get<int64_t>() + int64_t(below(5)) - 2;
      else if (at.is_number())
        at = at.template get<double>() * (below(2) ? -1 : 1e30);
      else if (at.is_boolean())
        at = !at.template get<bool>();
      else if (at.is_string())
        at = shaken(at.template get<std::string>());
      else
        at = odd();
      break;
    case 8: // wrapped
      at = below(2) ? Json::array({at}) : Json{{"type", at}};
      break;
    default: // a field under the name of another
      if (at.is_object() && !at.empty()) {
        auto it = at.begin();
        std::advance(it, below(at.size()));
        Json copy = it.value();
        auto other = at.begin();
        std::advance(other, below(at.size()));
        at[other.key()] = std::move(copy);
      }
    }
  }

  std::string shaken(std::string text) {
    for (uint64_t times = 1 + below(3); times > 0; --times) {
      constexpr const char *bits[] = {
          "(",    ")*", "[", "]", "\\", "{%",
          "%}",   "{{", "|", "*", "+",  "\xe2\x96\x81",
          "\xc3", " ",  "a", ".", "?",  "{1,999}"};
      size_t at = below(text.size() + 1);
      if (below(3) == 0)
        text.erase(at, 1 + below(4));
      else
        text.insert(at, bits[below(std::size(bits))]);
    }
    return text;
  }

  std::mt19937_64 random;
};

} // namespace knapper::serving
