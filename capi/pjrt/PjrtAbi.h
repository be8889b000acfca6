//===- PjrtAbi.h - The C interface between OpenXLA's clients and a plugin -===//
//
// Declarations of our own of the PJRT C API, version 0.93: what its clients and
// plugins agree on in memory. Names of functions and fields are the
// interface's. Every function takes one struct that begins with its size and a
// list of extensions; fields that the plugin writes are marked `out`. Later
// versions only append functions, and a client asks for our version before it
// calls one of those.
//
// PjrtSizes.cpp holds sizes against published
// ones.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace knapper::pjrt {

constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 93;

struct PjrtError;
struct PluginEvent;
struct Client;
struct PjrtDevice;
struct Memory;
struct DeviceDescription;
struct Topology;
struct PjrtExecutable;
struct LoadedExecutable;
struct Buffer;

enum class Code : int {
  invalidArgument = 3,
  notFound = 5,
  resourceExhausted = 8,
  failedPrecondition = 9,
  outOfRange = 11,
  unimplemented = 12,
  internal = 13,
};

/// Element types, in the interface's order.
enum class Type : int {
  invalid,
  pred,
  s8,
  s16,
  s32,
  s64,
  u8,
  u16,
  u32,
  u64,
  f16,
  f32,
  f64,
  bf16,
  c64,
  c128,
  f8e5m2,
  f8e4m3fn,
  f8e4m3b11fnuz,
  f8e5m2fnuz,
  f8e4m3fnuz,
  s4,
  u4,
  token,
  s2,
  u2,
  f8e4m3,
  f8e3m4,
  f8e8m0fnu,
  f4e2m1fn,
};

enum class HostSemantics : int {
  onlyDuringCall,
  untilTransferCompletes,
  zeroCopy,        ///< in place while the buffer lives, never written
  zeroCopyMutable, ///< the same, and may be written
};

/// How every struct of arguments begins.
struct Head {
  size_t struct_size;
  void *extension_start;
};

enum class ExtensionType : int { profiler = 1, layouts = 4, shardings = 19 };
struct Extension {
  size_t struct_size;
  ExtensionType type;
  Extension *next;
};

enum class ValueType : int { string, int64, int64List, float32, boolean };
struct NamedValue : Head {
  const char *name;
  size_t name_size;
  ValueType type;
  union {
    const char *string_value;
    int64_t int64_value;
    const int64_t *int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
};
/// One whose value is left to set; `name` outlives it.
inline NamedValue namedValue(const char *name, ValueType type, size_t size) {
  NamedValue made{};
  made.struct_size = sizeof(made);
  made.name = name;
  made.name_size = strlen(name);
  made.type = type;
  made.value_size = size;
  return made;
}

enum class LayoutType : int { tiled, strides };
struct TiledLayout : Head {
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  const int64_t *tile_dims;
  const size_t *tile_dim_sizes;
  size_t num_tiles;
};
struct StridedLayout : Head {
  const int64_t *byte_strides;
  size_t num_byte_strides;
};
struct MemoryLayout : Head {
  union {
    TiledLayout tiled;
    StridedLayout strides;
  };
  LayoutType type;
};

struct PjrtProgram : Head {
  char *code; // out, of OptimizedProgram
  size_t code_size;
  const char *format;
  size_t format_size;
};

/// Every function of version 0.93, in order.
#define KNAPPER_PJRT_FUNCTIONS(F)                                              \
  F(Error_Destroy)                                                             \
  F(Error_Message)                                                             \
  F(Error_GetCode)                                                             \
  F(Plugin_Initialize)                                                         \
  F(Plugin_Attributes)                                                         \
  F(Event_Destroy)                                                             \
  F(Event_IsReady)                                                             \
  F(Event_Error)                                                               \
  F(Event_Await)                                                               \
  F(Event_OnReady)                                                             \
  F(Client_Create)                                                             \
  F(Client_Destroy)                                                            \
  F(Client_PlatformName)                                                       \
  F(Client_ProcessIndex)                                                       \
  F(Client_PlatformVersion)                                                    \
  F(Client_Devices)                                                            \
  F(Client_AddressableDevices)                                                 \
  F(Client_LookupDevice)                                                       \
  F(Client_LookupAddressableDevice)                                            \
  F(Client_AddressableMemories)                                                \
  F(Client_Compile)                                                            \
  F(Client_DefaultDeviceAssignment)                                            \
  F(Client_BufferFromHostBuffer)                                               \
  F(DeviceDescription_Id)                                                      \
  F(DeviceDescription_ProcessIndex)                                            \
  F(DeviceDescription_Attributes)                                              \
  F(DeviceDescription_Kind)                                                    \
  F(DeviceDescription_DebugString)                                             \
  F(DeviceDescription_ToString)                                                \
  F(Device_GetDescription)                                                     \
  F(Device_IsAddressable)                                                      \
  F(Device_LocalHardwareId)                                                    \
  F(Device_AddressableMemories)                                                \
  F(Device_DefaultMemory)                                                      \
  F(Device_MemoryStats)                                                        \
  F(Memory_Id)                                                                 \
  F(Memory_Kind)                                                               \
  F(Memory_DebugString)                                                        \
  F(Memory_ToString)                                                           \
  F(Memory_AddressableByDevices)                                               \
  F(Executable_Destroy)                                                        \
  F(Executable_Name)                                                           \
  F(Executable_NumReplicas)                                                    \
  F(Executable_NumPartitions)                                                  \
  F(Executable_NumOutputs)                                                     \
  F(Executable_SizeOfGeneratedCodeInBytes)                                     \
  F(Executable_GetCostAnalysis)                                                \
  F(Executable_OutputMemoryKinds)                                              \
  F(Executable_OptimizedProgram)                                               \
  F(Executable_Serialize)                                                      \
  F(LoadedExecutable_Destroy)                                                  \
  F(LoadedExecutable_GetExecutable)                                            \
  F(LoadedExecutable_AddressableDevices)                                       \
  F(LoadedExecutable_Delete)                                                   \
  F(LoadedExecutable_IsDeleted)                                                \
  F(LoadedExecutable_Execute)                                                  \
  F(Executable_DeserializeAndLoad)                                             \
  F(LoadedExecutable_Fingerprint)                                              \
  F(Buffer_Destroy)                                                            \
  F(Buffer_ElementType)                                                        \
  F(Buffer_Dimensions)                                                         \
  F(Buffer_UnpaddedDimensions)                                                 \
  F(Buffer_DynamicDimensionIndices)                                            \
  F(Buffer_GetMemoryLayout)                                                    \
  F(Buffer_OnDeviceSizeInBytes)                                                \
  F(Buffer_Device)                                                             \
  F(Buffer_Memory)                                                             \
  F(Buffer_Delete)                                                             \
  F(Buffer_IsDeleted)                                                          \
  F(Buffer_CopyToDevice)                                                       \
  F(Buffer_ToHostBuffer)                                                       \
  F(Buffer_IsOnCpu)                                                            \
  F(Buffer_ReadyEvent)                                                         \
  F(Buffer_UnsafePointer)                                                      \
  F(Buffer_IncreaseExternalReferenceCount)                                     \
  F(Buffer_DecreaseExternalReferenceCount)                                     \
  F(Buffer_OpaqueDeviceMemoryDataPointer)                                      \
  F(CopyToDeviceStream_Destroy)                                                \
  F(CopyToDeviceStream_AddChunk)                                               \
  F(CopyToDeviceStream_TotalBytes)                                             \
  F(CopyToDeviceStream_GranuleSize)                                            \
  F(CopyToDeviceStream_CurrentBytes)                                           \
  F(TopologyDescription_Create)                                                \
  F(TopologyDescription_Destroy)                                               \
  F(TopologyDescription_PlatformName)                                          \
  F(TopologyDescription_PlatformVersion)                                       \
  F(TopologyDescription_GetDeviceDescriptions)                                 \
  F(TopologyDescription_Serialize)                                             \
  F(TopologyDescription_Attributes)                                            \
  F(Compile)                                                                   \
  F(Executable_OutputElementTypes)                                             \
  F(Executable_OutputDimensions)                                               \
  F(Buffer_CopyToMemory)                                                       \
  F(Client_CreateViewOfDeviceBuffer)                                           \
  F(Executable_Fingerprint)                                                    \
  F(Client_TopologyDescription)                                                \
  F(Executable_GetCompiledMemoryStats)                                         \
  F(Memory_Kind_Id)                                                            \
  F(ExecuteContext_Create)                                                     \
  F(ExecuteContext_Destroy)                                                    \
  F(Buffer_CopyRawToHost)                                                      \
  F(AsyncHostToDeviceTransferManager_Destroy)                                  \
  F(AsyncHostToDeviceTransferManager_TransferData)                             \
  F(Client_CreateBuffersForAsyncHostToDevice)                                  \
  F(AsyncHostToDeviceTransferManager_RetrieveBuffer)                           \
  F(AsyncHostToDeviceTransferManager_Device)                                   \
  F(AsyncHostToDeviceTransferManager_BufferCount)                              \
  F(AsyncHostToDeviceTransferManager_BufferSize)                               \
  F(AsyncHostToDeviceTransferManager_SetBufferError)                           \
  F(AsyncHostToDeviceTransferManager_AddMetadata)                              \
  F(Client_DmaMap)                                                             \
  F(Client_DmaUnmap)                                                           \
  F(Client_CreateUninitializedBuffer)                                          \
  F(Client_UpdateGlobalProcessInfo)                                            \
  F(TopologyDescription_Deserialize)                                           \
  F(Client_CreateAliasBuffer)                                                  \
  F(Client_FulfillAliasBuffer)                                                 \
  F(LoadedExecutable_GetDeviceAssignment)                                      \
  F(Client_CreateErrorBuffer)                                                  \
  F(AsyncHostToDeviceTransferManager_TransferLiteral)                          \
  F(Buffer_CopyRawToHostFuture)                                                \
  F(Device_PoisonExecution)                                                    \
  F(Device_CreateAsyncTrackingEvent)                                           \
  F(AsyncTrackingEvent_Destroy)                                                \
  F(Executable_GetCompileOptions)                                              \
  F(Buffer_DonateWithControlDependency)                                        \
  F(Event_Create)                                                              \
  F(Event_Set)                                                                 \
  F(Device_GetAttributes)

#define KNAPPER_PJRT_ARGUMENTS(name) struct name##_Args;
KNAPPER_PJRT_FUNCTIONS(KNAPPER_PJRT_ARGUMENTS)
#undef KNAPPER_PJRT_ARGUMENTS

/// The table that the plugin exports.
struct PjrtApi : Head {
  struct Version : Head {
    int major_version;
    int minor_version;
  } version;
#define KNAPPER_PJRT_FIELD(name) PjrtError *(*name)(name##_Args *);
  KNAPPER_PJRT_FUNCTIONS(KNAPPER_PJRT_FIELD)
#undef KNAPPER_PJRT_FIELD
};

} // namespace knapper::pjrt
