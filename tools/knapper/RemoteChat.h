// One answer of a chat by another server of OpenAI's API.
#pragma once

#include "runtime/base/Error.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace knapper::cli {

struct RemoteAnswer {
  std::string text;
  int64_t tokens = 0; ///< as the server counts them
  std::string finish; ///< as the server says; "": it broke off
};

/// Streams `/chat/completions` at the address, which ends with "/v1". `show`
/// gets the text as it comes. `wanted` is asked ten times a second: false ends
/// the answer where it is. Errors: user for what the server refuses, device for
/// the connection.
Expected<RemoteAnswer>
answerFrom(const std::string &url, const std::string &key,
           const nlohmann::ordered_json &body,
           const std::function<void(std::string_view)> &show,
           const std::function<bool()> &wanted);

} // namespace knapper::cli
