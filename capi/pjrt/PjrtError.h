//===- PjrtError.h - Errors as the plugin's clients get them --------------===//
#pragma once

#include "capi/pjrt/KnapperFunctions.h"
#include "capi/pjrt/PjrtArguments.h"
#include "capi/pjrt/PjrtBufferArguments.h"
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace knapper::pjrt {

/// Owned by whom it is given to, who calls Error_Destroy.
struct PjrtError {
  Code code;
  std::string message;
};

/// Never null and never throws.
PjrtError *fail(Code code, const std::string &message) noexcept;
/// Of an error of the C API, which is released.
PjrtError *fail(knapper_error *error) noexcept;
PjrtError *outOfMemory() noexcept;
void release(PjrtError *error) noexcept;
PjrtError *unexpected(const char *what) noexcept;

/// The first field after the head, a pointer.
inline const void *firstField(const void *arguments) {
  const void *field;
  memcpy(&field, static_cast<const char *>(arguments) + sizeof(Head),
         sizeof(field));
  return field;
}

/// A function of the table from one that may throw: nothing leaves it but an
/// error. `asks`: the first field is the object that is asked, never null.
template <auto Function, bool asks = true, typename Arguments>
PjrtError *guarded(Arguments *arguments) noexcept {
  try {
    if (!arguments || (asks && !firstField(arguments)))
      return fail(Code::invalidArgument, "an argument is null");
    return Function(*arguments);
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  } catch (const std::exception &e) {
    return unexpected(e.what());
  } catch (...) {
    return unexpected("an exception of another kind");
  }
}

void setErrorFunctions(PjrtApi &api);

} // namespace knapper::pjrt
