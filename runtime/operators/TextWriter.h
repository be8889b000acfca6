// Reading and writing the strings of a call.
#pragma once

#include "knapper/knapper.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace knapper {

inline std::span<const knapper_string> textsOf(const knapper_tensor &tensor) {
  return {static_cast<const knapper_string *>(tensor.data),
          tensor.bytes / sizeof(knapper_string)};
}
inline std::string_view view(const knapper_string &text) {
  return {text.data, text.size};
}

/// Null when the node does not have it.
inline const knapper_attribute *findAttribute(const knapper_call *call,
                                              const char *name) {
  for (int32_t i = 0; i < call->num_attributes; ++i)
    if (strcmp(call->attributes[i].name, name) == 0)
      return &call->attributes[i];
  return nullptr;
}
inline int64_t integerAttribute(const knapper_call *call, const char *name,
                                int64_t otherwise) {
  const knapper_attribute *found = findAttribute(call, name);
  return found && found->kind == KNAPPER_ATTRIBUTE_INT ? found->ints[0]
                                                       : otherwise;
}
inline std::span<const knapper_string> textAttributes(const knapper_call *call,
                                                      const char *name) {
  const knapper_attribute *found = findAttribute(call, name);
  if (!found || !found->strings)
    return {};
  return {found->strings, static_cast<size_t>(found->count)};
}

inline int failCall(const knapper_call *call, const std::string &message) {
  call->fail(call, message.c_str());
  return 1;
}

/// Collects strings in order; their bytes are allocated together.
class TextWriter {
public:
  void add(std::string_view text) {
    bytes.append(text);
    ends.push_back(bytes.size());
  }
  size_t count() const { return ends.size(); }
  /// Into a result of as many strings.
  int finish(const knapper_call *call, int32_t output) const {
    auto *memory = static_cast<char *>(call->allocate(call, bytes.size()));
    if (!memory)
      return failCall(call, "no memory for the strings");
    memcpy(memory, bytes.data(), bytes.size());
    auto *to = static_cast<knapper_string *>(call->outputs[output].data);
    size_t from = 0;
    for (size_t end : ends) {
      *to++ = {memory + from, end - from};
      from = end;
    }
    return 0;
  }

private:
  std::string bytes;
  std::vector<size_t> ends;
};

} // namespace knapper
