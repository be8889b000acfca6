#include "capi/pjrt/KnapperFunctions.h"
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace knapper::pjrt {

namespace {

struct Library {
  std::mutex mutex;
  bool loaded = false;
  KnapperFunctions functions;
};

Library &library() {
  static Library one;
  return one;
}

/// The folder of this shared object, with the slash.
std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return "";
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

} // namespace

const KnapperFunctions &knapper() { return library().functions; }

std::string loadKnapper(const std::string &given) {
  Library &one = library();
  std::lock_guard lock(one.mutex);
  if (one.loaded)
    return "";
  std::string path = given;
  if (const char *named = std::getenv("KNAPPER_LIBRARY"); path.empty() && named)
    path = named;
  if (path.empty())
    path = ownFolder() + "libknapper.so";
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return "cannot load " + path + ": " + (why ? why : "unknown") +
           "; name libknapper.so with the option library or $KNAPPER_LIBRARY";
  }
#define KNAPPER_PJRT_FIND(name)                                                \
  one.functions.name = reinterpret_cast<decltype(&knapper_##name)>(            \
      dlsym(handle, "knapper_" #name));                                        \
  if (!one.functions.name)                                                     \
    return path + " has no function knapper_" #name                            \
                  "; install the plugin and the library of one version";
  KNAPPER_PJRT_LIBRARY(KNAPPER_PJRT_FIND)
#undef KNAPPER_PJRT_FIND
  if (!one.functions.has_compiler())
    return path + " only runs models; give libknapper.so, which compiles";
  one.loaded = true;
  return "";
}

} // namespace knapper::pjrt
