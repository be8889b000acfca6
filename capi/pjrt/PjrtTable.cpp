// The table that clients of the interface ask for.
#include "capi/pjrt/PjrtExecutable.h"

namespace knapper::pjrt {

namespace {

enum class PjrtFunction {
#define KNAPPER_PJRT_NAME(name) name,
  KNAPPER_PJRT_FUNCTIONS(KNAPPER_PJRT_NAME)
#undef KNAPPER_PJRT_NAME
};

constexpr const char *kNames[] = {
#define KNAPPER_PJRT_NAME(name) #name,
    KNAPPER_PJRT_FUNCTIONS(KNAPPER_PJRT_NAME)
#undef KNAPPER_PJRT_NAME
};

/// What stands for a function that there is not.
template <PjrtFunction function, typename Arguments>
PjrtError *missing(Arguments *) noexcept {
  try {
    return fail(Code::unimplemented,
                std::string("knapper does not have PJRT_") +
                    kNames[static_cast<int>(function)] +
                    ": docs/jax.md says what the plugin serves");
  } catch (...) {
    return outOfMemory();
  }
}

PjrtError *initialize(Plugin_Initialize_Args &) { return nullptr; }

/// The newest version of portable artefacts that the reader is tested with.
constexpr int64_t kStableHlo[] = {1, 17, 0};
constexpr int64_t kOldestStableHlo[] = {0, 9, 0};

NamedValue version(const char *name, const int64_t *value) {
  NamedValue attribute = namedValue(name, ValueType::int64List, 3);
  attribute.int64_array_value = value;
  return attribute;
}

PjrtError *attributes(Plugin_Attributes_Args &a) {
  static const NamedValue list[] = {
      version("stablehlo_current_version", kStableHlo),
      version("stablehlo_minimum_version", kOldestStableHlo)};
  a.attributes = list;
  a.num_attributes = std::size(list);
  return nullptr;
}

PjrtError *createContext(ExecuteContext_Create_Args &a) {
  static char context; // has nothing in it
  a.context = &context;
  return nullptr;
}

PjrtError *destroyContext(ExecuteContext_Destroy_Args &) { return nullptr; }

PjrtApi makeTable() {
  PjrtApi api{};
  api.struct_size = sizeof(api);
  api.version.struct_size = sizeof(api.version);
  api.version.major_version = kMajorVersion;
  api.version.minor_version = kMinorVersion;
#define KNAPPER_PJRT_MISSING(name)                                             \
  api.name = missing<PjrtFunction::name, name##_Args>;
  KNAPPER_PJRT_FUNCTIONS(KNAPPER_PJRT_MISSING)
#undef KNAPPER_PJRT_MISSING
  api.Plugin_Initialize = guarded<initialize, false>;
  api.Plugin_Attributes = guarded<attributes, false>;
  api.ExecuteContext_Create = guarded<createContext, false>;
  api.ExecuteContext_Destroy = guarded<destroyContext, false>;
  setErrorFunctions(api);
  setEventFunctions(api);
  setClientFunctions(api);
  setDeviceFunctions(api);
  setTopologyFunctions(api);
  setBufferFunctions(api);
  setTransferFunctions(api);
  setCompileFunctions(api);
  setExecutableFunctions(api);
  setExecuteFunctions(api);
  setLayoutExtension(api);
  setProfilerExtension(api);
  setShardingExtension(api);
  return api;
}

} // namespace

} // namespace knapper::pjrt

extern "C" __attribute__((visibility("default"))) const void *GetPjrtApi() {
  static const knapper::pjrt::PjrtApi api = knapper::pjrt::makeTable();
  return &api;
}
