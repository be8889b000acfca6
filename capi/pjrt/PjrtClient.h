//===- PjrtClient.h - The CPU as OpenXLA's clients see it -----------------===//
//
// A client has one device, or as many as its option num_devices says. Each has
// one memory, "device", which is the host's, and runs its programs in order;
// the workers of all are the process's one pool.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/HostMemory.h"
#include "capi/pjrt/PjrtError.h"
#include "capi/pjrt/RunQueue.h"

namespace knapper::pjrt {

struct DeviceDescription {
  int id;
  std::string kind; ///< the processor's name
  std::string name; ///< "knapper:0"
};

struct Memory {
  PjrtDevice *device;
  std::string name;
};

struct PjrtDevice {
  PjrtDevice(Client *client, int id, const std::string &kind);
  PjrtDevice(const PjrtDevice &) = delete;
  PjrtDevice &operator=(const PjrtDevice &) = delete;

  Client *client;
  DeviceDescription description;
  Memory memory;
  // As the interface asks for them: lists of one.
  Memory *memories[1] = {&memory};
  PjrtDevice *self[1] = {this};
  std::shared_ptr<HostMemory> host = std::make_shared<HostMemory>();
  RunQueue runs = {};
};

struct Topology {
  std::vector<DeviceDescription *> descriptions;
};

struct Client {
  std::vector<std::unique_ptr<PjrtDevice>> owned; ///< number i has the id i
  // As the interface asks for them.
  std::vector<PjrtDevice *> devices;
  std::vector<Memory *> memories;
  Topology topology;

  /// Held while runs of several devices are put into their queues: so all
  /// queues have them in one order, and none waits for a later one.
  std::mutex together;

  std::string isa; ///< the best of this machine
  int threads = 0; ///< of a run; 0: one a core

  void addDevices(int count, const std::string &kind);
  /// Null: there is none.
  PjrtDevice *deviceOf(int64_t id) const;
};

/// There is no such device: the error that says which there are.
PjrtError *noDevice(const Client &client, int64_t id,
                    Code code = Code::notFound);

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
