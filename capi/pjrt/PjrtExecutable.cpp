// What executables say of themselves.
#include "capi/pjrt/PjrtExecutable.h"
#include <algorithm>

namespace knapper::pjrt {

namespace {

PjrtError *destroy(Executable_Destroy_Args &a) {
  delete a.executable;
  return nullptr;
}

PjrtError *destroyLoaded(LoadedExecutable_Destroy_Args &a) {
  delete a.executable;
  return nullptr;
}

PjrtError *executableOf(LoadedExecutable_GetExecutable_Args &a) {
  a.executable = new PjrtExecutable{a.loaded_executable->program};
  return nullptr;
}

PjrtError *assignment(LoadedExecutable_GetDeviceAssignment_Args &a) {
  auto bytes = std::make_unique<std::string>(
      deviceAssignment(a.executable->program->parts.devices));
  give(*bytes, a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_device_assignment = bytes.release();
  a.serialized_device_assignment_deleter = [](void *bytes) {
    delete static_cast<std::string *>(bytes);
  };
  return nullptr;
}

PjrtError *devices(LoadedExecutable_AddressableDevices_Args &a) {
  a.addressable_devices = a.executable->devices.data();
  a.num_addressable_devices = a.executable->devices.size();
  return nullptr;
}

PjrtError *remove(LoadedExecutable_Delete_Args &a) {
  a.executable->deleted = true;
  return nullptr;
}

PjrtError *isDeleted(LoadedExecutable_IsDeleted_Args &a) {
  a.is_deleted = a.executable->deleted;
  return nullptr;
}

PjrtError *name(Executable_Name_Args &a) {
  give("main", a.executable_name, a.executable_name_size);
  return nullptr;
}

PjrtError *replicas(Executable_NumReplicas_Args &a) {
  a.num_replicas = 1;
  return nullptr;
}

PjrtError *partitions(Executable_NumPartitions_Args &a) {
  a.num_partitions = a.executable->program->parts.devices.size();
  return nullptr;
}

PjrtError *outputCount(Executable_NumOutputs_Args &a) {
  a.num_outputs = a.executable->program->outputs.size();
  return nullptr;
}

PjrtError *outputTypes(Executable_OutputElementTypes_Args &a) {
  a.output_types = a.executable->program->outputTypes.data();
  a.num_output_types = a.executable->program->outputTypes.size();
  return nullptr;
}

PjrtError *outputDims(Executable_OutputDimensions_Args &a) {
  a.num_outputs = a.executable->program->outputRanks.size();
  a.dims = a.executable->program->outputDims.data();
  a.dim_sizes = a.executable->program->outputRanks.data();
  return nullptr;
}

PjrtError *outputKinds(Executable_OutputMemoryKinds_Args &a) {
  a.num_outputs = a.executable->program->memoryKinds.size();
  a.memory_kinds = a.executable->program->memoryKinds.data();
  a.memory_kind_sizes = a.executable->program->memoryKindSizes.data();
  return nullptr;
}

/// What XLA calls the costs.
PjrtError *costAnalysis(Executable_GetCostAnalysis_Args &a) {
  a.num_properties = a.executable->program->costs.size();
  a.properties = a.executable->program->costs.data();
  return nullptr;
}

PjrtError *memoryStats(Executable_GetCompiledMemoryStats_Args &a) {
  const CompiledProgram &program = *a.executable->program;
  uint64_t arena = 0, constants = 0;
  if (knapper_error *error = knapper().module_peak_memory(
          program.module, nullptr, nullptr, 0, &arena, &constants))
    return fail(error);
  Executable_GetCompiledMemoryStats_Args all{};
  static_cast<Head &>(all) = a;
  all.executable = a.executable;
  for (const ArrayInfo &input : program.inputs)
    all.argument_size_in_bytes += static_cast<int64_t>(input.bytes);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    auto bytes = static_cast<int64_t>(program.outputs[i].bytes);
    all.output_size_in_bytes += bytes;
    all.alias_size_in_bytes += program.replaces[i] >= 0 ? bytes : 0;
  }
  all.temp_size_in_bytes = static_cast<int64_t>(arena);
  all.generated_code_size_in_bytes = static_cast<int64_t>(constants);
  all.peak_memory_in_bytes = all.argument_size_in_bytes +
                             all.output_size_in_bytes + all.temp_size_in_bytes -
                             all.alias_size_in_bytes;
  // A caller of another version may have a shorter struct.
  memcpy(&a, &all, std::min(a.struct_size, sizeof(all)));
  return nullptr;
}

} // namespace

void setExecutableFunctions(PjrtApi &api) {
  api.Executable_Destroy = guarded<destroy>;
  api.LoadedExecutable_Destroy = guarded<destroyLoaded>;
  api.LoadedExecutable_GetExecutable = guarded<executableOf>;
  api.LoadedExecutable_GetDeviceAssignment = guarded<assignment>;
  api.LoadedExecutable_AddressableDevices = guarded<devices>;
  api.LoadedExecutable_Delete = guarded<remove>;
  api.LoadedExecutable_IsDeleted = guarded<isDeleted>;
  api.Executable_Name = guarded<name>;
  api.Executable_NumReplicas = guarded<replicas>;
  api.Executable_NumPartitions = guarded<partitions>;
  api.Executable_NumOutputs = guarded<outputCount>;
  api.Executable_OutputElementTypes = guarded<outputTypes>;
  api.Executable_OutputDimensions = guarded<outputDims>;
  api.Executable_OutputMemoryKinds = guarded<outputKinds>;
  api.Executable_GetCostAnalysis = guarded<costAnalysis>;
  api.Executable_GetCompiledMemoryStats = guarded<memoryStats>;
}

} // namespace knapper::pjrt
