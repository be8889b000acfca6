//===- PjrtBufferArguments.h - Structs of buffers and executables ---------===//
//
// As in PjrtArguments.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtAbi.h"

namespace knapper::pjrt {

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//
struct Buffer_Destroy_Args : Head {
  Buffer *buffer;
};

struct Buffer_ElementType_Args : Head {
  Buffer *buffer;
  Type type;
};

struct Buffer_Dimensions_Args : Head {
  Buffer *buffer;
  const int64_t *dims;
  size_t num_dims;
};

struct Buffer_UnpaddedDimensions_Args : Head {
  Buffer *buffer;
  const int64_t *unpadded_dims;
  size_t num_dims;
};

struct Buffer_DynamicDimensionIndices_Args : Head {
  Buffer *buffer;
  const size_t *dynamic_dim_indices;
  size_t num_dynamic_dims;
};

struct Buffer_GetMemoryLayout_Args : Head {
  Buffer *buffer;
  MemoryLayout layout;
};

struct Buffer_ToHostBuffer_Args : Head {
  Buffer *src;
  MemoryLayout *host_layout;
  void *dst;
  size_t dst_size;
  PluginEvent *event;
};

struct Buffer_OnDeviceSizeInBytes_Args : Head {
  Buffer *buffer;
  size_t on_device_size_in_bytes;
};

struct Buffer_Delete_Args : Head {
  Buffer *buffer;
};

struct Buffer_IsDeleted_Args : Head {
  Buffer *buffer;
  bool is_deleted;
};

struct Buffer_CopyRawToHost_Args : Head {
  Buffer *buffer;
  void *dst;
  int64_t offset;
  int64_t transfer_size;
  PluginEvent *event;
};

struct Buffer_CopyToDevice_Args : Head {
  Buffer *buffer;
  PjrtDevice *dst_device;
  Buffer *dst_buffer;
};

struct Buffer_CopyToMemory_Args : Head {
  Buffer *buffer;
  Memory *dst_memory;
  Buffer *dst_buffer;
};

struct Buffer_IsOnCpu_Args : Head {
  Buffer *buffer;
  bool is_on_cpu;
};

struct Buffer_Device_Args : Head {
  Buffer *buffer;
  PjrtDevice *device;
};

struct Buffer_Memory_Args : Head {
  Buffer *buffer;
  Memory *memory;
};

struct Buffer_ReadyEvent_Args : Head {
  Buffer *buffer;
  PluginEvent *event;
};

struct Buffer_UnsafePointer_Args : Head {
  Buffer *buffer;
  uintptr_t buffer_pointer;
};

struct Buffer_IncreaseExternalReferenceCount_Args : Head {
  Buffer *buffer;
};

struct Buffer_DecreaseExternalReferenceCount_Args : Head {
  Buffer *buffer;
};

struct Buffer_OpaqueDeviceMemoryDataPointer_Args : Head {
  Buffer *buffer;
  void *device_memory_ptr;
};

//===----------------------------------------------------------------------===//
// Executables
//===----------------------------------------------------------------------===//
struct ExecuteContext_Create_Args : Head {
  void *context;
};

struct ExecuteContext_Destroy_Args : Head {
  void *context;
};

struct Executable_Destroy_Args : Head {
  PjrtExecutable *executable;
};

struct LoadedExecutable_Destroy_Args : Head {
  LoadedExecutable *executable;
};

struct LoadedExecutable_GetExecutable_Args : Head {
  LoadedExecutable *loaded_executable;
  PjrtExecutable *executable;
};

struct LoadedExecutable_GetDeviceAssignment_Args : Head {
  LoadedExecutable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  void *serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(void *da);
};

struct Executable_Name_Args : Head {
  PjrtExecutable *executable;
  const char *executable_name;
  size_t executable_name_size;
};

struct Executable_NumReplicas_Args : Head {
  PjrtExecutable *executable;
  size_t num_replicas;
};

struct Executable_NumPartitions_Args : Head {
  PjrtExecutable *executable;
  size_t num_partitions;
};

struct LoadedExecutable_AddressableDevices_Args : Head {
  LoadedExecutable *executable;
  PjrtDevice *const *addressable_devices;
  size_t num_addressable_devices;
};

struct LoadedExecutable_Delete_Args : Head {
  LoadedExecutable *executable;
};

struct LoadedExecutable_IsDeleted_Args : Head {
  LoadedExecutable *executable;
  bool is_deleted;
};

struct ExecuteOptions : Head {
  void **send_callbacks;
  void **recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  /// Arguments that must outlive the call though the program may overwrite
  /// them.
  const int64_t *non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
};

struct LoadedExecutable_Execute_Args : Head {
  LoadedExecutable *executable;
  ExecuteOptions *options;
  Buffer *const *const *argument_lists;
  size_t num_devices;
  size_t num_args;
  Buffer **const *output_lists;
  PluginEvent **device_complete_events;
  PjrtDevice *execute_device;
};

struct Executable_NumOutputs_Args : Head {
  PjrtExecutable *executable;
  size_t num_outputs;
};

struct Executable_SizeOfGeneratedCodeInBytes_Args : Head {
  PjrtExecutable *executable;
  int64_t size_in_bytes;
};

struct Executable_Fingerprint_Args : Head {
  PjrtExecutable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
};

struct Executable_GetCostAnalysis_Args : Head {
  PjrtExecutable *executable;
  size_t num_properties;
  const NamedValue *properties;
};

struct Executable_GetCompiledMemoryStats_Args : Head {
  PjrtExecutable *executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
};

struct Executable_OutputElementTypes_Args : Head {
  PjrtExecutable *executable;
  Type *output_types;
  size_t num_output_types;
};

struct Executable_OutputDimensions_Args : Head {
  PjrtExecutable *executable;
  size_t num_outputs;
  const int64_t *dims;
  const size_t *dim_sizes;
};

struct Executable_OutputMemoryKinds_Args : Head {
  PjrtExecutable *executable;
  size_t num_outputs;
  const char *const *memory_kinds;
  const size_t *memory_kind_sizes;
};

struct Executable_Serialize_Args : Head {
  const PjrtExecutable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  void *serialized_executable;
  void (*serialized_executable_deleter)(void *exec);
};

struct Executable_GetCompileOptions_Args : Head {
  PjrtExecutable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  void *serialized_compile_options;
  void (*serialized_compile_options_deleter)(void *options);
};

struct Executable_DeserializeAndLoad_Args : Head {
  Client *client;
  const char *serialized_executable;
  size_t serialized_executable_size;
  LoadedExecutable *loaded_executable;
  const char *overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  void *load_options;
};

struct LoadedExecutable_Fingerprint_Args : Head {
  LoadedExecutable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
};

} // namespace knapper::pjrt
