// A device whose memory the host may not touch, as a GPU's: what drivers that
// address host memory cannot show.
#pragma once

#include "runtime/device/Device.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace knapper::testing {

/// A stream of the caller's on that device: what it was given waits until the
/// caller runs it. While it `captures`, the commands of a run are kept one by
/// one, for the test to run them as often as it likes.
struct RemoteStream {
  std::vector<std::function<void()>> work;
  bool captures = false;

  void finish() {
    // A queue that waits on the way may finish the stream too.
    auto list = std::move(work);
    work.clear();
    for (auto &each : list)
      each();
  }
};

/// What a device is told to do from now on, by any thread.
struct RemoteFaults {
  /// Of the device's memory, buffers and scratch of so many bytes or more
  /// cannot be had; 0: all can.
  std::atomic<uint64_t> fewestBytes = 0;
  std::atomic<uint64_t> refused = 0; ///< how many could not
  /// What the device says is free; 0: nothing.
  std::atomic<uint64_t> freeBytes = 0;

  /// So many launches still run; those behind them, `failingLaunches`, leave no
  /// number of any use and report an index out of range. -1: all run.
  std::atomic<int64_t> soundLaunches = -1;
  std::atomic<int64_t> failingLaunches = 1;
  std::atomic<uint64_t> launches = 0; ///< that ran or failed

  /// When commands run: when something waits for them; when the next run
  /// follows in their stream; at once.
  enum class Runs { late, behind, atOnce };
  std::atomic<Runs> runs = Runs::late;

  Status refuse(uint64_t bytes);
  /// Whether the launch that comes now is one that fails.
  bool failsLaunch();
};

/// Runs the CPU's code ("cpu" targets), late: commands are kept until something
/// waits for them, or as RemoteFaults says. Every address given to it must lie
/// in one of its own buffers, uploads and downloads must have the host's side
/// outside of them; anything else is a DeviceError, as is a grid or grain
/// below 1. Does not record. Follows and leads a RemoteStream; a queue's
/// `ownStream` is one.
std::shared_ptr<Device>
remoteDevice(std::shared_ptr<RemoteFaults> faults = nullptr);

} // namespace knapper::testing
