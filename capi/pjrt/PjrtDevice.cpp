// Devices, memories and what there is without a client.
#include "capi/pjrt/PjrtClient.h"
#include <algorithm>
#include <cstring>

namespace knapper::pjrt {

namespace {

PjrtError *id(DeviceDescription_Id_Args &a) {
  a.id = a.device_description->id;
  return nullptr;
}

PjrtError *process(DeviceDescription_ProcessIndex_Args &a) {
  a.process_index = 0;
  return nullptr;
}

PjrtError *attributes(DeviceDescription_Attributes_Args &a) {
  a.num_attributes = 1;
  a.attributes = &a.device_description->addressesHost;
  return nullptr;
}

PjrtError *kind(DeviceDescription_Kind_Args &a) {
  give(a.device_description->kind, a.device_kind, a.device_kind_size);
  return nullptr;
}

PjrtError *debugString(DeviceDescription_DebugString_Args &a) {
  give(a.device_description->name, a.debug_string, a.debug_string_size);
  return nullptr;
}

PjrtError *toString(DeviceDescription_ToString_Args &a) {
  give(a.device_description->name, a.to_string, a.to_string_size);
  return nullptr;
}

PjrtError *description(Device_GetDescription_Args &a) {
  a.device_description = &a.device->description;
  return nullptr;
}

PjrtError *deviceAttributes(Device_GetAttributes_Args &a) {
  a.attributes = &a.device->description.addressesHost;
  a.num_attributes = 1;
  a.device_attributes = nullptr;
  a.attributes_deleter = [](void *) {};
  return nullptr;
}

PjrtError *isAddressable(Device_IsAddressable_Args &a) {
  a.is_addressable = true;
  return nullptr;
}

PjrtError *hardwareId(Device_LocalHardwareId_Args &a) {
  a.local_hardware_id = a.device->description.id;
  return nullptr;
}

PjrtError *memories(Device_AddressableMemories_Args &a) {
  a.memories = a.device->memories;
  a.num_memories = 1;
  return nullptr;
}

PjrtError *defaultMemory(Device_DefaultMemory_Args &a) {
  a.memory = &a.device->memory;
  return nullptr;
}

PjrtError *stats(Device_MemoryStats_Args &a) {
  ArrayMemoryStats stats = a.device->arrays->stats();
  // A caller of another version may have a shorter struct.
  Device_MemoryStats_Args all{};
  static_cast<Head &>(all) = a;
  all.device = a.device;
  all.bytes_in_use = stats.inUse;
  all.peak_bytes_in_use = stats.peak;
  all.num_allocs = stats.allocations;
  all.largest_alloc_size = stats.largest;
  all.pool_bytes = stats.kept;
  all.peak_bytes_in_use_is_set = all.num_allocs_is_set =
      all.largest_alloc_size_is_set = all.pool_bytes_is_set = true;
  if (int64_t bytes = a.device->client->memoryBytes) {
    all.bytes_limit = bytes;
    all.bytes_limit_is_set = true;
  }
  memcpy(&a, &all, std::min(a.struct_size, sizeof(all)));
  return nullptr;
}

PjrtError *memoryId(Memory_Id_Args &a) {
  a.id = a.memory->device->description.id;
  return nullptr;
}

PjrtError *memoryKind(Memory_Kind_Args &a) {
  give(kMemoryKind, a.kind, a.kind_size);
  return nullptr;
}

PjrtError *memoryKindId(Memory_Kind_Id_Args &a) {
  a.kind_id = 0;
  return nullptr;
}

PjrtError *memoryDebugString(Memory_DebugString_Args &a) {
  give(a.memory->name, a.debug_string, a.debug_string_size);
  return nullptr;
}

PjrtError *memoryToString(Memory_ToString_Args &a) {
  give(a.memory->name, a.to_string, a.to_string_size);
  return nullptr;
}

PjrtError *memoryDevices(Memory_AddressableByDevices_Args &a) {
  a.devices = a.memory->device->self;
  a.num_devices = 1;
  return nullptr;
}

PjrtError *topologyName(TopologyDescription_PlatformName_Args &a) {
  give(kPlatform, a.platform_name, a.platform_name_size);
  return nullptr;
}

PjrtError *topologyVersion(TopologyDescription_PlatformVersion_Args &a) {
  give(platformVersion(), a.platform_version, a.platform_version_size);
  return nullptr;
}

PjrtError *topologyDevices(TopologyDescription_GetDeviceDescriptions_Args &a) {
  a.descriptions = a.topology->descriptions.data();
  a.num_descriptions = a.topology->descriptions.size();
  return nullptr;
}

PjrtError *topologyAttributes(TopologyDescription_Attributes_Args &a) {
  a.attributes = nullptr;
  a.num_attributes = 0;
  return nullptr;
}

/// Topologies are parts of their client.
PjrtError *topologyDestroy(TopologyDescription_Destroy_Args &a) {
  return nullptr;
}

} // namespace

void setDeviceFunctions(PjrtApi &api) {
  api.DeviceDescription_Id = guarded<id>;
  api.DeviceDescription_ProcessIndex = guarded<process>;
  api.DeviceDescription_Attributes = guarded<attributes>;
  api.DeviceDescription_Kind = guarded<kind>;
  api.DeviceDescription_DebugString = guarded<debugString>;
  api.DeviceDescription_ToString = guarded<toString>;
  api.Device_GetDescription = guarded<description>;
  api.Device_GetAttributes = guarded<deviceAttributes>;
  api.Device_IsAddressable = guarded<isAddressable>;
  api.Device_LocalHardwareId = guarded<hardwareId>;
  api.Device_AddressableMemories = guarded<memories>;
  api.Device_DefaultMemory = guarded<defaultMemory>;
  api.Device_MemoryStats = guarded<stats>;
  api.Memory_Id = guarded<memoryId>;
  api.Memory_Kind = guarded<memoryKind>;
  api.Memory_Kind_Id = guarded<memoryKindId>;
  api.Memory_DebugString = guarded<memoryDebugString>;
  api.Memory_ToString = guarded<memoryToString>;
  api.Memory_AddressableByDevices = guarded<memoryDevices>;
}

void setTopologyFunctions(PjrtApi &api) {
  api.TopologyDescription_PlatformName = guarded<topologyName>;
  api.TopologyDescription_PlatformVersion = guarded<topologyVersion>;
  api.TopologyDescription_GetDeviceDescriptions = guarded<topologyDevices>;
  api.TopologyDescription_Attributes = guarded<topologyAttributes>;
  api.TopologyDescription_Destroy = guarded<topologyDestroy>;
}

} // namespace knapper::pjrt
