#include "serving/http/ApiError.h"

#include "runtime/base/Json.h"

namespace knapper::serving {

std::string ApiError::type() const {
  return status == 401   ? "authentication_error"
         : status == 429 ? "rate_limit_error"
         : status == 503 ? "service_unavailable_error"
         : status >= 500 ? "server_error"
                         : "invalid_request_error";
}

/// What repeats a request is as long as its client likes. Of a long text the
/// beginning and the end, in whole characters.
static std::string shortened(const std::string &text) {
  constexpr size_t most = 1024, atEnd = 256;
  if (text.size() <= most)
    return text;
  auto isInside = [&](size_t at) { return (text[at] & 0xc0) == 0x80; };
  size_t first = most - atEnd, last = text.size() - atEnd;
  while (first > 0 && isInside(first))
    --first;
  while (last < text.size() && isInside(last))
    ++last;
  return text.substr(0, first) + " ... " + text.substr(last);
}

std::string ApiError::json() const {
  JsonWriter writer;
  writer.beginObject().key("error").beginObject();
  writer.field("message", shortened(message)).field("type", type());
  for (auto [key, text] :
       {std::pair("param", &param), std::pair("code", &code)})
    if (text->empty())
      writer.key(key).null();
    else
      writer.field(key, shortened(*text));
  return writer.endObject().endObject().take();
}

ApiError ApiError::from(const Error &error, const std::string &param) {
  ApiError made;
  made.message = error.what;
  if (error.where == "queue") {
    made.status = 429;
    made.code = "queue_full";
    made.retryAfter = 1;
    return made;
  }
  if (error.where == "draining") {
    made.status = 503;
    made.code = "shutting_down";
    made.retryAfter = 5;
    return made;
  }
  if (error.where == "rebuilding" || error.where == "deadline") {
    made.status = 503;
    made.code =
        error.where == "deadline" ? "deadline_exceeded" : "engine_rebuilding";
    made.retryAfter = 2;
    return made;
  }
  if (!error.hint.empty())
    made.message += "; try: " + error.hint;
  made.param = param;
  made.status = error.kind == ErrorKind::user     ? 400
                : error.kind == ErrorKind::device ? 503
                                                  : 500;
  made.code = made.status == 400   ? "invalid_value"
              : made.status == 503 ? "device_error"
                                   : "internal_error";
  made.retryAfter = made.status == 503 ? 5 : 0;
  return made;
}

} // namespace knapper::serving
