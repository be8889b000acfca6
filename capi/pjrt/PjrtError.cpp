#include "capi/pjrt/PjrtError.h"

namespace knapper::pjrt {

namespace {

PjrtError *noMemory() noexcept {
  static PjrtError error{Code::resourceExhausted, "out of memory"};
  return &error;
}

} // namespace

void release(PjrtError *error) noexcept {
  if (error != noMemory())
    delete error;
}

PjrtError *fail(Code code, const std::string &message) noexcept {
  try {
    return new PjrtError{code, message};
  } catch (...) {
    return noMemory();
  }
}

PjrtError *fail(knapper_error *error) noexcept {
  Code code = Code::internal;
  switch (knapper().error_get_kind(error)) {
  case KNAPPER_ERROR_USER:
    code = Code::invalidArgument;
    break;
  case KNAPPER_ERROR_DEVICE:
    code = Code::resourceExhausted;
    break;
  case KNAPPER_ERROR_INTERNAL:
    break;
  }
  PjrtError *result = fail(code, knapper().error_get_message(error));
  knapper().error_release(error);
  return result;
}

PjrtError *outOfMemory() noexcept { return noMemory(); }

PjrtError *unexpected(const char *what) noexcept {
  return fail(Code::internal, std::string("an unexpected failure: ") + what);
}

namespace {

PjrtError *destroy(Error_Destroy_Args *a) {
  if (a)
    release(a->error);
  return nullptr;
}

PjrtError *message(Error_Message_Args *a) {
  if (a && a->error) {
    a->message = a->error->message.c_str();
    a->message_size = a->error->message.size();
  }
  return nullptr;
}

PjrtError *code(Error_GetCode_Args &a) {
  if (!a.error)
    return fail(Code::invalidArgument, "the error is null");
  a.code = a.error->code;
  return nullptr;
}

} // namespace

void setErrorFunctions(PjrtApi &api) {
  api.Error_Destroy = destroy;
  api.Error_Message = message;
  api.Error_GetCode = guarded<code>;
}

} // namespace knapper::pjrt
