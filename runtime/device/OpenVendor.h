// Where libraries of vendors lie. None is linked: they are opened when a file
// that would call one is loaded.
#pragma once

#include "runtime/base/Error.h"

#include <initializer_list>
#include <string>
#include <type_traits>

namespace knapper {

/// A library that was opened. Never closed: libraries have threads and exit
/// handlers of their own.
struct VendorFile {
  void *handle = nullptr;
  std::string path; ///< as the loader found it

  /// The address of a function, or null.
  void *find(const char *name) const;
  /// Sets `member` to the function; false where there is none.
  template <typename Function>
  bool find(Function &member, const char *name) const {
    member = reinterpret_cast<Function>(find(name));
    return member != nullptr;
  }
};

/// Opens the first of `files` (best first) in the folders of
/// KNAPPER_VENDOR_PATH (absolute, separated by ':'), then where the system's
/// loader looks. A DeviceError says what was looked for, or what the loader
/// says of the first file that is there.
Expected<VendorFile> openVendorFile(std::initializer_list<const char *> files);

} // namespace knapper
