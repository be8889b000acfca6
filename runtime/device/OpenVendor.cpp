#include "runtime/device/OpenVendor.h"

#include "runtime/base/Text.h"

#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace knapper {
namespace {

VendorFile opened(void *handle, std::string path) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0])
    path = map->l_name;
  return {handle, std::move(path)};
}

} // namespace

void *VendorFile::find(const char *name) const { return dlsym(handle, name); }

Expected<VendorFile> openVendorFile(std::initializer_list<const char *> files) {
  // Nothing of whoever starts a program with more rights than their own.
  const char *variable = secure_getenv("KNAPPER_VENDOR_PATH");
  std::string_view folders = variable ? variable : "";
  std::string names;
  std::optional<Error> first;
  for (const char *file : files)
    names += cat(names.empty() ? "" : ", ", file);
  for (size_t at = 0; at < folders.size();) {
    size_t end = std::min(folders.find(':', at), folders.size());
    std::string folder(folders.substr(at, end - at));
    at = end + 1;
    for (const char *file : files) {
      std::string path = cat(folder, "/", file);
      if (!folder.starts_with('/') || access(path.c_str(), F_OK) != 0)
        continue;
      if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return opened(handle, path);
      const char *why = dlerror();
      if (!first)
        first = deviceError(
            cat("it lies there but cannot be opened: ", why ? why : ""), path,
            "leave its folder out of KNAPPER_VENDOR_PATH");
    }
  }
  for (const char *file : files)
    if (void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL))
      return opened(handle, file);
  if (first)
    return std::move(*first);
  return deviceError(cat("no ", names,
                         " in the folders of KNAPPER_VENDOR_PATH nor where the "
                         "system's loader looks"),
                     names, "docs/vendor-libraries.md says how to get it");
}

} // namespace knapper
