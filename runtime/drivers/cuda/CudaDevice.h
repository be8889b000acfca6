// NVIDIA GPUs through the driver API. Code is PTX, which the driver compiles
// when it is loaded, or a cubin. A kernel's entry in the artefact is a
// GpuEntry. Its parameters are the buffers' addresses, the symbols (64 bits
// each), the address of the status word, the number of programs (64 bits) and
// its TMA descriptors (128 bytes each); block i runs the programs from
// i * GpuEntry::programs, unless the entry says that blocks share them out.
#pragma once

#include "runtime/device/Device.h"

#include <memory>
#include <vector>

namespace knapper::cuda {

/// The GPU with this number, as the driver counts; null if there is none (the
/// reason is logged). Its context is the primary one, shared with whatever else
/// in the process uses CUDA. Every call gives the same device while one is
/// alive.
std::shared_ptr<Device> device(int ordinal = 0);

/// How many there are: 0 without a driver.
int deviceCount();

} // namespace knapper::cuda
