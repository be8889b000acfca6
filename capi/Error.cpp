#include "capi/Handles.h"

#include "runtime/base/DType.h"
#include "runtime/base/Log.h"
#include "runtime/base/Printable.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

using namespace knapper;

namespace knapper::capi {
namespace {

/// Made when the library is loaded, while there is memory.
struct Reserve {
  knapper_error error{
      deviceError("out of memory", "", "use smaller inputs, or free memory"),
      {}};
  Reserve() { error.message = error.error.message(); }
} reserve;

} // namespace

knapper_error *outOfMemory() noexcept { return &reserve.error; }

knapper_error *unexpected(const std::exception *exception) noexcept {
  try {
    if (dynamic_cast<const std::system_error *>(exception))
      return toC(deviceError(
          std::string("the system refuses a thread: ") + exception->what(), "",
          "end other threads, or raise the limits of the process"));
    return toC(
        internalError(exception ? exception->what() : "unknown exception"));
  } catch (...) {
    return outOfMemory();
  }
}

knapper_error *toC(Error error) noexcept {
  try {
    auto result = std::make_unique<knapper_error>();
    // Names in messages come from models and files.
    result->error = {error.kind, printable(error.what, true),
                     printable(error.where), printable(error.hint, true)};
    result->message = result->error.message();
    return result.release();
  } catch (...) {
    return outOfMemory();
  }
}

Status copyString(const std::string &text, char **out) {
  *out = static_cast<char *>(malloc(text.size() + 1));
  if (!*out)
    throw std::bad_alloc();
  memcpy(*out, text.c_str(), text.size() + 1);
  return success();
}

} // namespace knapper::capi

#define KNAPPER_TEXT2(x) #x
#define KNAPPER_TEXT(x) KNAPPER_TEXT2(x)

const char *knapper_version(void) {
  return KNAPPER_TEXT(KNAPPER_VERSION_MAJOR) "." KNAPPER_TEXT(
      KNAPPER_VERSION_MINOR) "." KNAPPER_TEXT(KNAPPER_VERSION_PATCH);
}

knapper_error_kind knapper_error_get_kind(const knapper_error *error) {
  if (!error)
    return KNAPPER_ERROR_INTERNAL;
  switch (error->error.kind) {
  case ErrorKind::user:
    return KNAPPER_ERROR_USER;
  case ErrorKind::device:
    return KNAPPER_ERROR_DEVICE;
  case ErrorKind::internal:
    break;
  }
  return KNAPPER_ERROR_INTERNAL;
}
const char *knapper_error_get_message(const knapper_error *error) {
  return error ? error->message.c_str() : "";
}
const char *knapper_error_get_where(const knapper_error *error) {
  return error ? error->error.where.c_str() : "";
}
const char *knapper_error_get_hint(const knapper_error *error) {
  return error ? error->error.hint.c_str() : "";
}
void knapper_error_release(knapper_error *error) {
  if (error != capi::outOfMemory())
    delete error;
}

void knapper_string_release(char *text) { free(text); }

void knapper_set_log_callback(knapper_log_callback callback, void *user,
                              knapper_log_level level) {
  static_assert(KNAPPER_LOG_DEBUG == static_cast<int>(LogLevel::debug));
  setLogCallback(callback, user, static_cast<LogLevel>(level));
}

// C callers may pass any number as an enum.
static unsigned number(const knapper_dtype &dtype) {
  unsigned value;
  memcpy(&value, &dtype, sizeof value);
  return value;
}

size_t knapper_dtype_size(knapper_dtype dtype) {
  return number(dtype) < kNumDTypes
             ? byteSize(static_cast<DType>(number(dtype)))
             : 0;
}
const char *knapper_dtype_name(knapper_dtype dtype) {
  return number(dtype) < kNumDTypes
             ? name(static_cast<DType>(number(dtype))).data()
             : "unknown";
}
