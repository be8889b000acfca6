// JSON of requests, whose objects keep the order of their fields.
#pragma once

#include <nlohmann/json.hpp>

namespace knapper::serving {

/// nlohmann's, under a name of ours: its type is another one than
/// nlohmann::ordered_json, so that its destructor can be ours too.
template <typename T, typename Enable = void>
struct OrderedJsonSerializer : nlohmann::adl_serializer<T, Enable> {};

/// As nlohmann::ordered_json, but its destructor allocates nothing. The
/// library's own one keeps a list of what is still to be destroyed; where that
/// finds no memory, std::terminate ends the process.
using OrderedJson =
    nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool,
                         int64_t, uint64_t, double, std::allocator,
                         OrderedJsonSerializer>;

} // namespace knapper::serving

/// What every destructor calls. The depth of the tree costs no stack either.
template <>
void knapper::serving::OrderedJson::json_value::destroy(
    nlohmann::detail::value_t type);
