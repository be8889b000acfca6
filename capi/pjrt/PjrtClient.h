//===- PjrtClient.h - Devices as OpenXLA's clients see them ---------------===//
//
// A client's devices are of one kind. Of CPUs there is one, or as many as the
// option num_devices says: the memory of each is the host's, and the workers of
// all are the process's one pool. Of GPUs there is one, with its own memory and
// a stream that its runs go to. A device has one memory, "device", and runs its
// programs in order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/ArrayMemory.h"
#include "capi/pjrt/PjrtError.h"
#include "capi/pjrt/RunQueue.h"

namespace knapper::pjrt {

struct DeviceDescription {
  int id;
  std::string kind; ///< the processor's name
  std::string name; ///< "knapper:0"
  /// 0 or 1; JAX 0.10 ends the process at a boolean.
  NamedValue addressesHost = namedValue("addresses_host", ValueType::int64, 1);
};

struct Memory {
  PjrtDevice *device;
  std::string name;
};

/// Of a GPU: the order of its runs, and who waits for them.
struct DeviceStream {
  explicit DeviceStream(knapper_stream *stream)
      : stream(stream, knapper().stream_release) {}

  void *handle() const { return knapper().stream_handle(stream.get()); }

  std::unique_ptr<knapper_stream, decltype(&knapper_stream_release)> stream;
  RunQueue ends = {};  ///< waits for runs that the stream has, in their order
  RunQueue reads = {}; ///< copies to the host, behind the runs that write them
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
  std::shared_ptr<ArrayMemory> arrays;
  std::unique_ptr<DeviceStream> stream; ///< null: runs end before the next
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

  /// "cpu" or "cuda", and the best instruction set of this machine.
  std::string kind, isa;
  int threads = 0; ///< of a run; 0: one a core
  DeviceHandle device;     ///< of the C API; null: the host
  int64_t memoryBytes = 0; ///< of the device; 0: the host's

  /// All are alike; `device`, `kind` and `memoryBytes` are known.
  PjrtError *addDevices(int count, const std::string &name);
  /// Null: there is none.
  PjrtDevice *deviceOf(int64_t id) const;
};

/// There is no such device: the error that says which there are.
PjrtError *noDevice(const Client &client, int64_t id,
                    Code code = Code::notFound);

/// Whether the host reads and writes arrays where they lie.
inline bool isHost(const PjrtDevice &device) { return !device.stream; }

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
