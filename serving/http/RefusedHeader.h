// Headers that the parser takes and this server does not: those of which
// another server on the way could read something else, and what is not
// implemented.
#pragma once

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <iterator>
#include <optional>
#include <string>

namespace knapper::serving {

struct RefusedRequest {
  int status;
  const char *code;
  std::string what;
};

template <bool isRequest, typename Fields>
std::optional<RefusedRequest>
refusedHeader(const boost::beast::http::header<isRequest, Fields> &header) {
  using Field = boost::beast::http::field;
  auto count = [&](Field name) {
    auto [first, last] = header.equal_range(name);
    return std::distance(first, last);
  };
  auto wrong = [](std::string what) {
    return RefusedRequest{400, "bad_http",
                          "this is no HTTP request: " + std::move(what)};
  };
  bool isNew = header.version() >= 11;
  // Without chunks at its end nobody knows where such a body ends: what follows
  // would be read as a request.
  if (auto codings = count(Field::transfer_encoding);
      codings > 0 &&
      (codings > 1 || !isNew ||
       !boost::beast::iequals(header[Field::transfer_encoding], "chunked")))
    return wrong("the only Transfer-Encoding is 'chunked', once, in HTTP/1.1");
  if (isNew && count(Field::host) == 0)
    return wrong("there is no Host");
  for (Field name : {Field::host, Field::authorization, Field::origin,
                     Field::content_type, Field::content_length})
    if (count(name) > 1)
      return wrong(std::string(to_string(name)) + " is there twice");
  if (isNew && count(Field::expect) > 0 &&
      !boost::beast::iequals(header[Field::expect], "100-continue"))
    return RefusedRequest{417, "unknown_expectation",
                          "the only Expect is '100-continue'"};
  if (count(Field::content_encoding) > 0 &&
      !boost::beast::iequals(header[Field::content_encoding], "identity"))
    return RefusedRequest{415, "unsupported_media_type",
                          "no Content-Encoding is known: send the body as it "
                          "is"};
  return std::nullopt;
}

} // namespace knapper::serving
