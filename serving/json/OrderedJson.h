// JSON of requests, whose objects keep the order of their fields.
#pragma once

#include <nlohmann/json.hpp>

namespace knapper::serving {

/// As nlohmann::ordered_map, but values move where it grows. The library's
/// own one copies them: a body's messages three times, for the fields behind.
template <typename Key, typename Value, typename Less, typename Allocator>
struct OrderedFields : nlohmann::ordered_map<Key, Value, Less, Allocator> {
  using Base = nlohmann::ordered_map<Key, Value, Less, Allocator>;
  using Base::Base;
  OrderedFields() = default;

  std::pair<typename Base::iterator, bool> emplace(const Key &key,
                                                   Value &&value) {
    grow();
    return Base::emplace(key, std::move(value));
  }
  Value &operator[](const Key &key) {
    return emplace(key, Value()).first->second;
  }
  using Base::operator[];

private:
  void grow() {
    if (this->size() < this->capacity())
      return;
    typename Base::Container &fields = *this;
    typename Base::Container larger;
    larger.reserve(2 * fields.size() + 2);
    for (auto &field : fields)
      larger.push_back(std::move(field)); // copies the key, which is const
    fields.swap(larger);
  }
};

/// nlohmann's, under a name of ours: its type is another one than
/// nlohmann::ordered_json, so that its destructor can be ours too.
template <typename T, typename Enable = void>
struct OrderedJsonSerializer : nlohmann::adl_serializer<T, Enable> {};

/// As nlohmann::ordered_json, but its destructor allocates nothing. The
/// library's own one keeps a list of what is still to be destroyed; where that
/// finds no memory, std::terminate ends the process.
using OrderedJson =
    nlohmann::basic_json<OrderedFields, std::vector, std::string, bool, int64_t,
                         uint64_t, double, std::allocator,
                         OrderedJsonSerializer>;

} // namespace knapper::serving

/// What every destructor calls. The depth of the tree costs no stack either.
template <>
void knapper::serving::OrderedJson::json_value::destroy(
    nlohmann::detail::value_t type);
