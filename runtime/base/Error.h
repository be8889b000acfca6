// The three kinds of error and the carrier `Expected<T>`. No exceptions: an
// error is a value.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace knapper {

enum class ErrorKind : uint8_t {
  user,     // the caller's model, file, arguments or settings
  device,   // the machine: out of memory, a failed system or driver call
  internal, // a defect of ours
};

/// What went wrong, where, why, and one thing to try. `where` names the user's
/// own line: an ONNX node, a file and offset, an argument. Empty fields are
/// left out when printed.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string what;
  std::string where;
  std::string hint;

  /// "where: what\n  try: hint", without a trailing newline.
  std::string message() const {
    std::string text = where.empty() ? what : where + ": " + what;
    if (!hint.empty())
      text += "\n  try: " + hint;
    return text;
  }
};

inline Error userError(std::string what, std::string where = {},
                       std::string hint = {}) {
  return {ErrorKind::user, std::move(what), std::move(where), std::move(hint)};
}
inline Error deviceError(std::string what, std::string where = {},
                         std::string hint = {}) {
  return {ErrorKind::device, std::move(what), std::move(where),
          std::move(hint)};
}
inline Error internalError(std::string what, std::string where = {}) {
  return {ErrorKind::internal, std::move(what), std::move(where),
          "please report this with the model and the command"};
}

/// A value or an Error. Test before use, or take the value by ASSIGN_OR_RETURN.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state.index() == 0; }
  T &operator*() & { return *std::get_if<0>(&state); }
  const T &operator*() const & { return *std::get_if<0>(&state); }
  T &&operator*() && { return std::move(*std::get_if<0>(&state)); }
  T *operator->() { return std::get_if<0>(&state); }
  const T *operator->() const { return std::get_if<0>(&state); }
  const Error &error() const { return *std::get_if<1>(&state); }
  Error takeError() { return std::move(*std::get_if<1>(&state)); }

private:
  std::variant<T, Error> state;
};

/// Success or an Error: `return success();`.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::make_unique<Error>(std::move(error))) {}
  explicit operator bool() const { return !failure; }
  const Error &error() const { return *failure; }
  Error takeError() { return std::move(*failure); }

private:
  std::unique_ptr<Error> failure;
};
inline Status success() { return {}; }

/// Evaluates to nothing where a Status is a success; else returns its error
/// from the function around it.
#define TRY(...)                                                               \
  do {                                                                         \
    if (::knapper::Status tried = (__VA_ARGS__); !tried)                       \
      return tried.takeError();                                                \
  } while (false)

/// Declares a variable with the value of an Expected, or returns its error from
/// the function around it: ASSIGN_OR_RETURN(std::string text, file.read());
#define ASSIGN_OR_RETURN(declaration, ...)                                     \
  ASSIGN_OR_RETURN_FROM(KNAPPER_JOIN(expected, __LINE__), declaration,         \
                        __VA_ARGS__)
#define ASSIGN_OR_RETURN_FROM(name, declaration, ...)                          \
  auto name = (__VA_ARGS__);                                                   \
  if (!name)                                                                   \
    return name.takeError();                                                   \
  declaration = std::move(*name)
#define KNAPPER_JOIN(a, b) KNAPPER_JOIN_EXPANDED(a, b)
#define KNAPPER_JOIN_EXPANDED(a, b) a##b

} // namespace knapper
