#include "tools/knapper/RemoteChat.h"

#include "serving/http/HttpClient.h"
#include "tools/knapper/ServerEvents.h"

namespace knapper::cli {

using Json = nlohmann::ordered_json;

namespace {

/// Takes the lines of a stream of events.
class ChatStream {
public:
  ChatStream(RemoteAnswer &answer,
             const std::function<void(std::string_view)> &show)
      : answer(answer), show(show) {}

  void push(std::string_view part) { events.push(part); }
  std::string error;
  std::string rest() const { return events.rest(); }

private:
  void take(std::string_view text) {
    Json event = Json::parse(text, nullptr, false);
    if (!event.is_object())
      return; // [DONE]
    if (event.contains("error"))
      error =
          event["error"].dump(-1, ' ', false, Json::error_handler_t::replace);
    if (event.contains("usage") && event["usage"].is_object())
      answer.tokens = usageCount(event["usage"], "completion_tokens");
    if (!event.contains("choices") || !event["choices"].is_array() ||
        event["choices"].empty() || !event["choices"][0].is_object())
      return;
    const Json &choice = event["choices"][0];
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string())
      answer.finish = choice["finish_reason"].get<std::string>();
    if (!choice.contains("delta") || !choice["delta"].is_object())
      return;
    const Json &delta = choice["delta"];
    if (!delta.contains("content") || !delta["content"].is_string())
      return;
    std::string piece = delta["content"].get<std::string>();
    answer.text += piece;
    show(piece);
  }

  RemoteAnswer &answer;
  const std::function<void(std::string_view)> &show;
  ServerEvents events{[this](std::string_view text) { take(text); }};
};

} // namespace

Expected<RemoteAnswer>
answerFrom(const std::string &url, const std::string &key, const Json &body,
           const std::function<void(std::string_view)> &show,
           const std::function<bool()> &wanted) {
  constexpr double patience = 600;
  ASSIGN_OR_RETURN(serving::HttpUrl address, serving::HttpUrl::parse(url));
  if (address.prefix.empty())
    address.prefix = "/v1";
  ASSIGN_OR_RETURN(std::unique_ptr<serving::HttpClient> client,
                   serving::HttpClient::connect(address, patience));
  RemoteAnswer answer;
  ChatStream stream(answer, show);
  client->wanted = wanted;
  Expected<int> sent =
      client->send("/chat/completions",
                   body.dump(-1, ' ', false, Json::error_handler_t::replace),
                   key, [&](std::string_view part) { stream.push(part); });
  if (!sent && !wanted())
    return answer;
  ASSIGN_OR_RETURN(int status, std::move(sent));
  std::string refusal = status == 200 ? stream.error : stream.rest();
  if (refusal.empty())
    return answer;
  if (Json error = Json::parse(refusal, nullptr, false); error.is_object()) {
    Json inner = error.value("error", error);
    if (inner.is_object() && inner.contains("message") &&
        inner["message"].is_string())
      refusal = inner["message"].get<std::string>();
  }
  return userError(
      "the server answers " + std::to_string(status) + ": " + refusal, url);
}

} // namespace knapper::cli
