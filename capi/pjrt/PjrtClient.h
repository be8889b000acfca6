//===- PjrtClient.h - The CPU as OpenXLA's clients see it -----------------===//
//
// One client has one device, and that has one memory, "device", which is the
// host's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/HostMemory.h"
#include "capi/pjrt/PjrtError.h"
#include "capi/pjrt/RunQueue.h"

namespace knapper::pjrt {

struct DeviceDescription {
  std::string kind; ///< the processor's name
};

struct Topology {
  DeviceDescription *description;
};

struct Memory {
  Client *client;
};

struct PjrtDevice {
  Client *client;
  DeviceDescription *description;
  RunQueue runs = {};
};

struct Client {
  DeviceDescription description;
  Topology topology{&description};
  Memory memory{this};
  PjrtDevice device{this, &description};
  Memory *memories[1] = {&memory};
  PjrtDevice *devices[1] = {&device};
  DeviceDescription *descriptions[1] = {&description};

  std::string isa; ///< the best of this machine
  int threads = 0; ///< of a run; 0: one a core
  std::shared_ptr<HostMemory> host = std::make_shared<HostMemory>();
};

constexpr char kPlatform[] = "knapper";
constexpr char kMemoryKind[] = "device";
/// "knapper 0.1.0"
const std::string &platformVersion();

/// A text that the interface hands out as pointer and size.
template <size_t N>
void give(const char (&text)[N], const char *&data, size_t &size) {
  data = text;
  size = N - 1;
}
inline void give(const std::string &text, const char *&data, size_t &size) {
  data = text.c_str();
  size = text.size();
}

void setClientFunctions(PjrtApi &api);
void setDeviceFunctions(PjrtApi &api);
void setTopologyFunctions(PjrtApi &api);

} // namespace knapper::pjrt
