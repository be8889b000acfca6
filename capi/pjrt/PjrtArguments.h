//===- PjrtArguments.h - The structs that the plugin's functions take -----===//
//
// A struct a function, named as the interface names it. What a function gives
// back is written into the struct; what it points to lives as long as the
// object that was asked, or until the deleter beside it is called. Those of
// buffers and executables are in PjrtBufferArguments.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtAbi.h"

namespace knapper::pjrt {

//===----------------------------------------------------------------------===//
// Errors and events
//===----------------------------------------------------------------------===//
struct Error_Destroy_Args : Head {
  PjrtError *error;
};

struct Error_Message_Args : Head {
  const PjrtError *error;
  const char *message;
  size_t message_size;
};

struct Error_GetCode_Args : Head {
  const PjrtError *error;
  Code code;
};

struct Plugin_Initialize_Args : Head {};

struct Plugin_Attributes_Args : Head {
  const NamedValue *attributes;
  size_t num_attributes;
};

struct Event_Destroy_Args : Head {
  PluginEvent *event;
};

struct Event_IsReady_Args : Head {
  PluginEvent *event;
  bool is_ready;
};

struct Event_Error_Args : Head {
  PluginEvent *event;
};

struct Event_Await_Args : Head {
  PluginEvent *event;
};

struct Event_OnReady_Args : Head {
  PluginEvent *event;
  /// Owns the error; null where all went well.
  void (*callback)(PjrtError *error, void *user_arg);
  void *user_arg;
};

struct Event_Create_Args : Head {
  PluginEvent *event;
};

struct Event_Set_Args : Head {
  PluginEvent *event;
  Code error_code;
  const char *error_message;
  size_t error_message_size;
};

//===----------------------------------------------------------------------===//
// Clients, devices, memories
//===----------------------------------------------------------------------===//
struct Client_Create_Args : Head {
  const NamedValue *create_options;
  size_t num_options;
  void *kv_get_callback;
  void *kv_get_user_arg;
  void *kv_put_callback;
  void *kv_put_user_arg;
  Client *client;
  void *kv_try_get_callback;
  void *kv_try_get_user_arg;
};

struct Client_Destroy_Args : Head {
  Client *client;
};

struct Client_PlatformName_Args : Head {
  Client *client;
  const char *platform_name;
  size_t platform_name_size;
};

struct Client_ProcessIndex_Args : Head {
  Client *client;
  int process_index;
};

struct Client_PlatformVersion_Args : Head {
  Client *client;
  const char *platform_version;
  size_t platform_version_size;
};

struct Client_TopologyDescription_Args : Head {
  Client *client;
  Topology *topology;
};

struct Client_Devices_Args : Head {
  Client *client;
  PjrtDevice *const *devices;
  size_t num_devices;
};

struct Client_AddressableDevices_Args : Head {
  Client *client;
  PjrtDevice *const *addressable_devices;
  size_t num_addressable_devices;
};

struct Client_LookupDevice_Args : Head {
  Client *client;
  int id;
  PjrtDevice *device;
};

struct Client_LookupAddressableDevice_Args : Head {
  Client *client;
  int local_hardware_id;
  PjrtDevice *addressable_device;
};

struct Client_AddressableMemories_Args : Head {
  Client *client;
  Memory *const *addressable_memories;
  size_t num_addressable_memories;
};

struct Client_Compile_Args : Head {
  Client *client;
  const PjrtProgram *program;
  const char *compile_options;
  size_t compile_options_size;
  LoadedExecutable *executable;
};

struct Client_DefaultDeviceAssignment_Args : Head {
  Client *client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int *default_assignment;
};

struct Client_CreateUninitializedBuffer_Args : Head {
  Client *client;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  Type shape_element_type;
  MemoryLayout *shape_layout;
  PjrtDevice *device;
  Memory *memory;
  Buffer *buffer;
};

struct Client_BufferFromHostBuffer_Args : Head {
  Client *client;
  const void *data;
  Type type;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *byte_strides;
  size_t num_byte_strides;
  HostSemantics host_buffer_semantics;
  PjrtDevice *device;
  Memory *memory;
  MemoryLayout *device_layout;
  PluginEvent *done_with_host_buffer;
  Buffer *buffer;
};

struct Client_CreateViewOfDeviceBuffer_Args : Head {
  Client *client;
  void *device_buffer_ptr;
  const int64_t *dims;
  size_t num_dims;
  Type element_type;
  MemoryLayout *layout;
  PjrtDevice *device;
  void (*on_delete_callback)(void *device_buffer_ptr, void *user_arg);
  void *on_delete_callback_arg;
  intptr_t stream;
  Buffer *buffer;
  Memory *memory;
};

struct DeviceDescription_Id_Args : Head {
  DeviceDescription *device_description;
  int id;
};

struct DeviceDescription_ProcessIndex_Args : Head {
  DeviceDescription *device_description;
  int process_index;
};

struct DeviceDescription_Attributes_Args : Head {
  DeviceDescription *device_description;
  size_t num_attributes;
  const NamedValue *attributes;
};

struct DeviceDescription_Kind_Args : Head {
  DeviceDescription *device_description;
  const char *device_kind;
  size_t device_kind_size;
};

struct DeviceDescription_DebugString_Args : Head {
  DeviceDescription *device_description;
  const char *debug_string;
  size_t debug_string_size;
};

struct DeviceDescription_ToString_Args : Head {
  DeviceDescription *device_description;
  const char *to_string;
  size_t to_string_size;
};

struct Device_GetDescription_Args : Head {
  PjrtDevice *device;
  DeviceDescription *device_description;
};

struct Device_IsAddressable_Args : Head {
  PjrtDevice *device;
  bool is_addressable;
};

struct Device_LocalHardwareId_Args : Head {
  PjrtDevice *device;
  int local_hardware_id;
};

struct Device_AddressableMemories_Args : Head {
  PjrtDevice *device;
  Memory *const *memories;
  size_t num_memories;
};

struct Device_DefaultMemory_Args : Head {
  PjrtDevice *device;
  Memory *memory;
};

struct Device_MemoryStats_Args : Head {
  PjrtDevice *device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;
  bool peak_allocated_bytes_is_set;
};

struct Device_GetAttributes_Args : Head {
  PjrtDevice *device;
  const NamedValue *attributes;
  size_t num_attributes;
  void *device_attributes;
  void (*attributes_deleter)(void *attributes);
};

struct Memory_Id_Args : Head {
  Memory *memory;
  int id;
};

struct Memory_Kind_Args : Head {
  Memory *memory;
  const char *kind;
  size_t kind_size;
};

struct Memory_Kind_Id_Args : Head {
  Memory *memory;
  int kind_id;
};

struct Memory_DebugString_Args : Head {
  Memory *memory;
  const char *debug_string;
  size_t debug_string_size;
};

struct Memory_ToString_Args : Head {
  Memory *memory;
  const char *to_string;
  size_t to_string_size;
};

struct Memory_AddressableByDevices_Args : Head {
  Memory *memory;
  PjrtDevice *const *devices;
  size_t num_devices;
};

struct TopologyDescription_Destroy_Args : Head {
  Topology *topology;
};

struct TopologyDescription_PlatformVersion_Args : Head {
  Topology *topology;
  const char *platform_version;
  size_t platform_version_size;
};

struct TopologyDescription_PlatformName_Args : Head {
  const Topology *topology;
  const char *platform_name;
  size_t platform_name_size;
};

struct TopologyDescription_GetDeviceDescriptions_Args : Head {
  const Topology *topology;
  DeviceDescription *const *descriptions;
  size_t num_descriptions;
};

struct TopologyDescription_Serialize_Args : Head {
  Topology *topology;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  void *serialized_topology;
  void (*serialized_topology_deleter)(void *serialized_topology);
};

struct TopologyDescription_Attributes_Args : Head {
  Topology *topology;
  const NamedValue *attributes;
  size_t num_attributes;
};

} // namespace knapper::pjrt
