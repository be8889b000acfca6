// The size of every struct against the published ones: the interface has no
// other check, and a field too few writes into the caller's memory.
#include "capi/pjrt/PjrtArguments.h"
#include "capi/pjrt/PjrtBufferArguments.h"

namespace knapper::pjrt {

#define KNAPPER_PJRT_SIZE(name, bytes) static_assert(sizeof(name) == bytes)

KNAPPER_PJRT_SIZE(Error_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(Error_Message_Args, 40);
KNAPPER_PJRT_SIZE(Error_GetCode_Args, 32);
KNAPPER_PJRT_SIZE(Plugin_Initialize_Args, 16);
KNAPPER_PJRT_SIZE(Plugin_Attributes_Args, 32);
KNAPPER_PJRT_SIZE(Event_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(Event_IsReady_Args, 32);
KNAPPER_PJRT_SIZE(Event_Error_Args, 24);
KNAPPER_PJRT_SIZE(Event_Await_Args, 24);
KNAPPER_PJRT_SIZE(Event_OnReady_Args, 40);
KNAPPER_PJRT_SIZE(Event_Create_Args, 24);
KNAPPER_PJRT_SIZE(Event_Set_Args, 48);
KNAPPER_PJRT_SIZE(Client_Create_Args, 88);
KNAPPER_PJRT_SIZE(Client_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(Client_PlatformName_Args, 40);
KNAPPER_PJRT_SIZE(Client_ProcessIndex_Args, 32);
KNAPPER_PJRT_SIZE(Client_PlatformVersion_Args, 40);
KNAPPER_PJRT_SIZE(Client_TopologyDescription_Args, 32);
KNAPPER_PJRT_SIZE(Client_Devices_Args, 40);
KNAPPER_PJRT_SIZE(Client_AddressableDevices_Args, 40);
KNAPPER_PJRT_SIZE(Client_LookupDevice_Args, 40);
KNAPPER_PJRT_SIZE(Client_LookupAddressableDevice_Args, 40);
KNAPPER_PJRT_SIZE(Client_AddressableMemories_Args, 40);
KNAPPER_PJRT_SIZE(Client_Compile_Args, 56);
KNAPPER_PJRT_SIZE(Client_DefaultDeviceAssignment_Args, 48);
KNAPPER_PJRT_SIZE(Client_CreateUninitializedBuffer_Args, 80);
KNAPPER_PJRT_SIZE(Client_BufferFromHostBuffer_Args, 120);
KNAPPER_PJRT_SIZE(Client_CreateViewOfDeviceBuffer_Args, 112);
KNAPPER_PJRT_SIZE(DeviceDescription_Id_Args, 32);
KNAPPER_PJRT_SIZE(DeviceDescription_ProcessIndex_Args, 32);
KNAPPER_PJRT_SIZE(DeviceDescription_Attributes_Args, 40);
KNAPPER_PJRT_SIZE(DeviceDescription_Kind_Args, 40);
KNAPPER_PJRT_SIZE(DeviceDescription_DebugString_Args, 40);
KNAPPER_PJRT_SIZE(DeviceDescription_ToString_Args, 40);
KNAPPER_PJRT_SIZE(Device_GetDescription_Args, 32);
KNAPPER_PJRT_SIZE(Device_IsAddressable_Args, 32);
KNAPPER_PJRT_SIZE(Device_LocalHardwareId_Args, 32);
KNAPPER_PJRT_SIZE(Device_AddressableMemories_Args, 40);
KNAPPER_PJRT_SIZE(Device_DefaultMemory_Args, 32);
KNAPPER_PJRT_SIZE(Device_MemoryStats_Args, 208);
KNAPPER_PJRT_SIZE(Memory_Id_Args, 32);
KNAPPER_PJRT_SIZE(Memory_Kind_Args, 40);
KNAPPER_PJRT_SIZE(Memory_Kind_Id_Args, 32);
KNAPPER_PJRT_SIZE(Memory_DebugString_Args, 40);
KNAPPER_PJRT_SIZE(Memory_ToString_Args, 40);
KNAPPER_PJRT_SIZE(Memory_AddressableByDevices_Args, 40);
KNAPPER_PJRT_SIZE(TopologyDescription_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(TopologyDescription_PlatformVersion_Args, 40);
KNAPPER_PJRT_SIZE(TopologyDescription_PlatformName_Args, 40);
KNAPPER_PJRT_SIZE(TopologyDescription_GetDeviceDescriptions_Args, 40);
KNAPPER_PJRT_SIZE(TopologyDescription_Serialize_Args, 56);
KNAPPER_PJRT_SIZE(TopologyDescription_Attributes_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(Buffer_ElementType_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_Dimensions_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_UnpaddedDimensions_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_DynamicDimensionIndices_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_GetMemoryLayout_Args, 104);
KNAPPER_PJRT_SIZE(Buffer_ToHostBuffer_Args, 56);
KNAPPER_PJRT_SIZE(Buffer_OnDeviceSizeInBytes_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_Delete_Args, 24);
KNAPPER_PJRT_SIZE(Buffer_IsDeleted_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_CopyRawToHost_Args, 56);
KNAPPER_PJRT_SIZE(Buffer_CopyToDevice_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_CopyToMemory_Args, 40);
KNAPPER_PJRT_SIZE(Buffer_IsOnCpu_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_Device_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_Memory_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_ReadyEvent_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_UnsafePointer_Args, 32);
KNAPPER_PJRT_SIZE(Buffer_IncreaseExternalReferenceCount_Args, 24);
KNAPPER_PJRT_SIZE(Buffer_DecreaseExternalReferenceCount_Args, 24);
KNAPPER_PJRT_SIZE(Buffer_OpaqueDeviceMemoryDataPointer_Args, 32);
KNAPPER_PJRT_SIZE(ExecuteContext_Create_Args, 24);
KNAPPER_PJRT_SIZE(ExecuteContext_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(Executable_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(LoadedExecutable_Destroy_Args, 24);
KNAPPER_PJRT_SIZE(LoadedExecutable_GetExecutable_Args, 32);
KNAPPER_PJRT_SIZE(LoadedExecutable_GetDeviceAssignment_Args, 56);
KNAPPER_PJRT_SIZE(Executable_Name_Args, 40);
KNAPPER_PJRT_SIZE(Executable_NumReplicas_Args, 32);
KNAPPER_PJRT_SIZE(Executable_NumPartitions_Args, 32);
KNAPPER_PJRT_SIZE(LoadedExecutable_AddressableDevices_Args, 40);
KNAPPER_PJRT_SIZE(LoadedExecutable_Delete_Args, 24);
KNAPPER_PJRT_SIZE(LoadedExecutable_IsDeleted_Args, 32);
KNAPPER_PJRT_SIZE(LoadedExecutable_Execute_Args, 80);
KNAPPER_PJRT_SIZE(Executable_NumOutputs_Args, 32);
KNAPPER_PJRT_SIZE(Executable_SizeOfGeneratedCodeInBytes_Args, 32);
KNAPPER_PJRT_SIZE(Executable_Fingerprint_Args, 40);
KNAPPER_PJRT_SIZE(Executable_GetCostAnalysis_Args, 40);
KNAPPER_PJRT_SIZE(Executable_OutputElementTypes_Args, 40);
KNAPPER_PJRT_SIZE(Executable_OutputDimensions_Args, 48);
KNAPPER_PJRT_SIZE(Executable_OutputMemoryKinds_Args, 48);
KNAPPER_PJRT_SIZE(Executable_Serialize_Args, 56);
KNAPPER_PJRT_SIZE(Executable_GetCompileOptions_Args, 56);
KNAPPER_PJRT_SIZE(Executable_DeserializeAndLoad_Args, 72);
KNAPPER_PJRT_SIZE(LoadedExecutable_Fingerprint_Args, 40);
KNAPPER_PJRT_SIZE(NamedValue, 56);
KNAPPER_PJRT_SIZE(MemoryLayout, 80);
KNAPPER_PJRT_SIZE(PjrtProgram, 48);
// 129 functions.
KNAPPER_PJRT_SIZE(PjrtApi, 40 + 129 * sizeof(void *));

#undef KNAPPER_PJRT_SIZE

} // namespace knapper::pjrt
