// The driver that accepts everything and computes nothing: the smallest
// complete one. Copy this folder to begin a driver.
#pragma once

#include "runtime/device/Device.h"

#include <atomic>
#include <memory>

namespace knapper::null {

/// Accepts code of every instruction set; launches leave their buffers alone;
/// copies copy, so that control flow and symbols still work.
std::shared_ptr<Device> device();

/// What a device is told to do from now on, by any thread.
struct Faults {
  std::atomic<bool> lost = false; ///< refuses all work with a DeviceError
  /// A launch that is given while it is does not end while it is.
  std::atomic<bool> hung = false;
  /// That a run takes at least, from its begin to its end; in a stream, behind
  /// the run before it there.
  std::atomic<int64_t> runMicroseconds = 0;
};
/// The same device, with faults.
std::shared_ptr<Device> faultyDevice(std::shared_ptr<const Faults> faults);

} // namespace knapper::null
