#include "capi/pjrt/PjrtClient.h"
#include "capi/pjrt/DeviceOperators.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace knapper::pjrt {

namespace {

/// Bytes that are kept of freed arrays of the host's.
constexpr int64_t kKeptOfHost = int64_t(512) << 20;
/// One part in so many of a GPU's memory is: modules allocate there too.
constexpr int64_t kPartKeptOfDevice = 4;

} // namespace

const std::string &platformVersion() {
  static const std::string text = std::string("knapper ") + knapper().version();
  return text;
}

PjrtDevice::PjrtDevice(Client *client, int id, const std::string &kind)
    : client(client),
      description{id, kind, std::string(kPlatform) + ":" + std::to_string(id)},
      memory{this, description.name + " memory"} {
  description.addressesHost.int64_value = !client->device;
}

PjrtError *Client::addDevices(int count, const std::string &name) {
  int64_t kept = device ? memoryBytes / kPartKeptOfDevice : kKeptOfHost;
  for (int id = 0; id < count; ++id) {
    owned.push_back(std::make_unique<PjrtDevice>(this, id, name));
    PjrtDevice *made = owned.back().get();
    made->arrays = std::make_shared<ArrayMemory>(device, kept);
    if (device) {
      knapper_stream *stream = nullptr;
      if (knapper_error *error = knapper().stream_create(device.get(), &stream))
        return fail(error);
      made->stream = std::make_unique<DeviceStream>(stream);
    }
    devices.push_back(made);
    memories.push_back(&made->memory);
    topology.descriptions.push_back(&made->description);
  }
  return nullptr;
}

PjrtDevice *Client::deviceOf(int64_t id) const {
  return id >= 0 && id < static_cast<int64_t>(devices.size())
             ? devices[static_cast<size_t>(id)]
             : nullptr;
}

PjrtError *noDevice(const Client &client, int64_t id, Code code) {
  size_t count = client.devices.size();
  return fail(code, "there is no device " + std::to_string(id) + ": there " +
                        (count == 1 ? std::string("is one, 0")
                                    : "are 0 to " + std::to_string(count - 1)) +
                        "; the option num_devices says how many");
}

namespace {

constexpr int64_t kMostDevices = 256;

/// The text after "key": of the description of a device.
std::string textOf(std::string_view json, std::string_view key) {
  std::string wanted = '"' + std::string(key) + '"';
  size_t at = json.find(wanted);
  size_t begin = at == json.npos ? at : json.find('"', at + wanted.size());
  size_t end = begin == json.npos ? begin : json.find('"', begin + 1);
  if (end == json.npos)
    return "";
  return std::string(json.substr(begin + 1, end - begin - 1));
}

std::string_view nameOf(const NamedValue &option) {
  return {option.name, option.name_size};
}

struct ClientOptions {
  std::string library, device;
  int64_t devices = 0; ///< 0: one
};

PjrtError *readOption(const NamedValue &option, ClientOptions &options,
                      Client &client) {
  if (nameOf(option) == "library" && option.type == ValueType::string) {
    options.library.assign(option.string_value, option.value_size);
    return nullptr;
  }
  if (nameOf(option) == "device" && option.type == ValueType::string) {
    options.device.assign(option.string_value, option.value_size);
    return nullptr;
  }
  if (nameOf(option) == "threads" && option.type == ValueType::int64) {
    if (option.int64_value < 0 || option.int64_value > 4096)
      return fail(Code::invalidArgument,
                  "the option threads is " +
                      std::to_string(option.int64_value) +
                      "; give 1 to 4096, or 0 for one a core");
    client.threads = static_cast<int>(option.int64_value);
    return nullptr;
  }
  if (nameOf(option) == "num_devices" && option.type == ValueType::int64) {
    options.devices = option.int64_value;
    if (options.devices < 1 || options.devices > kMostDevices)
      return fail(Code::invalidArgument, "the option num_devices is " +
                                             std::to_string(options.devices) +
                                             "; give 1 to " +
                                             std::to_string(kMostDevices));
    return nullptr;
  }
  return fail(
      Code::invalidArgument,
      "there is no option '" + std::string(nameOf(option)) +
          "' of this type; there are library and device (texts), threads "
          "and num_devices (integers)");
}

/// Opens the kind of device that the options name, or that is found. Several
/// devices are CPUs.
PjrtError *openDevice(const ClientOptions &options, Client &client,
                      std::string &name) {
  bool isCpu = options.device.empty() && options.devices > 1 &&
               !std::getenv("KNAPPER_DEVICE");
  const char *wanted = isCpu                    ? "cpu"
                       : options.device.empty() ? nullptr
                                                : options.device.c_str();
  knapper_device *opened = nullptr;
  if (knapper_error *error = knapper().device_open(wanted, &opened)) {
    // What is missing is a device, not memory of one.
    std::string message = knapper().error_get_message(error);
    knapper().error_release(error);
    return fail(Code::failedPrecondition, message);
  }
  DeviceHandle device(opened, knapper().device_release);
  char *json = nullptr;
  if (knapper_error *error = knapper().device_describe(opened, &json))
    return fail(error);
  std::unique_ptr<char, void (*)(char *)> text(json, knapper().string_release);
  client.kind = textOf(json, "device");
  client.isa = textOf(json, "isa");
  name = textOf(json, "name");
  if (knapper().device_addresses_host(opened))
    return nullptr;
  client.device = std::move(device);
  client.memoryBytes =
      static_cast<int64_t>(knapper().device_free_bytes(opened));
  if (options.devices > 1)
    return fail(Code::invalidArgument,
                "the option num_devices is " + std::to_string(options.devices) +
                    ", and the device is '" + client.kind +
                    "', of which one is used; give 1, or the device 'cpu'");
  return nullptr;
}

PjrtError *create(Client_Create_Args &a) {
  auto client = std::make_unique<Client>();
  ClientOptions options;
  for (size_t i = 0; i < a.num_options; ++i)
    if (PjrtError *error = readOption(a.create_options[i], options, *client))
      return error;
  if (std::string problem = loadKnapper(options.library); !problem.empty())
    return fail(Code::failedPrecondition, problem);
  std::string name;
  if (PjrtError *error = openDevice(options, *client, name))
    return error;
  int count = static_cast<int>(std::max<int64_t>(options.devices, 1));
  if (PjrtError *error =
          client->addDevices(count, name.empty() ? client->kind : name))
    return error;
  if (count > 1)
    if (PjrtError *error = registerDeviceOperators())
      return error;
  a.client = client.release();
  return nullptr;
}

PjrtError *destroy(Client_Destroy_Args &a) {
  delete a.client;
  return nullptr;
}

PjrtError *platformName(Client_PlatformName_Args &a) {
  give(kPlatform, a.platform_name, a.platform_name_size);
  return nullptr;
}

PjrtError *processIndex(Client_ProcessIndex_Args &a) {
  a.process_index = 0;
  return nullptr;
}

PjrtError *version(Client_PlatformVersion_Args &a) {
  give(platformVersion(), a.platform_version, a.platform_version_size);
  return nullptr;
}

PjrtError *topology(Client_TopologyDescription_Args &a) {
  a.topology = &a.client->topology;
  return nullptr;
}

PjrtError *devices(Client_Devices_Args &a) {
  a.devices = a.client->devices.data();
  a.num_devices = a.client->devices.size();
  return nullptr;
}

PjrtError *addressableDevices(Client_AddressableDevices_Args &a) {
  a.addressable_devices = a.client->devices.data();
  a.num_addressable_devices = a.client->devices.size();
  return nullptr;
}

PjrtError *lookupDevice(Client_LookupDevice_Args &a) {
  a.device = a.client->deviceOf(a.id);
  return a.device ? nullptr : noDevice(*a.client, a.id);
}

PjrtError *lookupAddressable(Client_LookupAddressableDevice_Args &a) {
  a.addressable_device = a.client->deviceOf(a.local_hardware_id);
  return a.addressable_device ? nullptr
                              : noDevice(*a.client, a.local_hardware_id);
}

PjrtError *memories(Client_AddressableMemories_Args &a) {
  a.addressable_memories = a.client->memories.data();
  a.num_addressable_memories = a.client->memories.size();
  return nullptr;
}

PjrtError *defaultAssignment(Client_DefaultDeviceAssignment_Args &a) {
  if (a.num_replicas != 1)
    return fail(Code::unimplemented,
                std::to_string(a.num_replicas) +
                    " replicas: knapper runs one, of several partitions");
  auto count = static_cast<size_t>(std::max(a.num_partitions, 1));
  if (count > a.client->devices.size())
    return noDevice(*a.client, a.num_partitions - 1, Code::invalidArgument);
  if (!a.default_assignment || a.default_assignment_size < count)
    return fail(Code::invalidArgument, "there is no room for the assignment");
  for (size_t i = 0; i < count; ++i)
    a.default_assignment[i] = static_cast<int>(i);
  return nullptr;
}

} // namespace

void setClientFunctions(PjrtApi &api) {
  api.Client_Create = guarded<create, false>;
  api.Client_Destroy = guarded<destroy>;
  api.Client_PlatformName = guarded<platformName>;
  api.Client_ProcessIndex = guarded<processIndex>;
  api.Client_PlatformVersion = guarded<version>;
  api.Client_TopologyDescription = guarded<topology>;
  api.Client_Devices = guarded<devices>;
  api.Client_AddressableDevices = guarded<addressableDevices>;
  api.Client_LookupDevice = guarded<lookupDevice>;
  api.Client_LookupAddressableDevice = guarded<lookupAddressable>;
  api.Client_AddressableMemories = guarded<memories>;
  api.Client_DefaultDeviceAssignment = guarded<defaultAssignment>;
}

} // namespace knapper::pjrt
