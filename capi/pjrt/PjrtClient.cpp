#include "capi/pjrt/PjrtClient.h"
#include <charconv>
#include <string_view>

namespace knapper::pjrt {

const std::string &platformVersion() {
  static const std::string text = std::string("knapper ") + knapper().version();
  return text;
}

namespace {

/// The text after "key": of the first device in the list of devices.
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

PjrtError *readOption(const NamedValue &option, std::string &library,
                      Client &client) {
  if (nameOf(option) == "library" && option.type == ValueType::string) {
    library.assign(option.string_value, option.value_size);
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
  return fail(Code::invalidArgument,
              "there is no option '" + std::string(nameOf(option)) +
                  "' of this type; there are library (text) and threads "
                  "(integer)");
}

PjrtError *create(Client_Create_Args &a) {
  auto client = std::make_unique<Client>();
  std::string library;
  for (size_t i = 0; i < a.num_options; ++i)
    if (PjrtError *error = readOption(a.create_options[i], library, *client))
      return error;
  if (std::string problem = loadKnapper(library); !problem.empty())
    return fail(Code::failedPrecondition, problem);
  char *json = nullptr;
  if (knapper_error *error = knapper().devices(0, &json))
    return fail(error);
  client->isa = textOf(json, "isa");
  client->description.kind = textOf(json, "name");
  knapper().string_release(json);
  if (client->description.kind.empty())
    client->description.kind = "cpu";
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
  a.devices = a.client->devices;
  a.num_devices = 1;
  return nullptr;
}

PjrtError *addressableDevices(Client_AddressableDevices_Args &a) {
  a.addressable_devices = a.client->devices;
  a.num_addressable_devices = 1;
  return nullptr;
}

PjrtError *noDevice(int id) {
  return fail(Code::notFound,
              "there is no device " + std::to_string(id) + ": there is one, 0");
}

PjrtError *lookupDevice(Client_LookupDevice_Args &a) {
  if (a.id != 0)
    return noDevice(a.id);
  a.device = &a.client->device;
  return nullptr;
}

PjrtError *lookupAddressable(Client_LookupAddressableDevice_Args &a) {
  if (a.local_hardware_id != 0)
    return noDevice(a.local_hardware_id);
  a.addressable_device = &a.client->device;
  return nullptr;
}

PjrtError *memories(Client_AddressableMemories_Args &a) {
  a.addressable_memories = a.client->memories;
  a.num_addressable_memories = 1;
  return nullptr;
}

PjrtError *defaultAssignment(Client_DefaultDeviceAssignment_Args &a) {
  if (a.num_replicas != 1 || a.num_partitions != 1)
    return fail(Code::unimplemented,
                std::to_string(a.num_replicas) + " replicas and " +
                    std::to_string(a.num_partitions) +
                    " partitions: knapper has one device; jit without "
                    "shardings over several devices");
  if (!a.default_assignment || a.default_assignment_size < 1)
    return fail(Code::invalidArgument, "there is no room for the assignment");
  a.default_assignment[0] = 0;
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
