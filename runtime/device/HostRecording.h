// A recording for drivers whose commands are plain host data: keeps copies of
// them and plays them back through the queue.
#pragma once

#include "runtime/device/Device.h"

#include <vector>

namespace knapper {

class HostRecording : public Recording {
public:
  void add(const LaunchCommand &command);
  void add(void *target, const void *source, uint64_t bytes);
  /// Issues every command to `queue` in order, until `cancel` is wished.
  Status playTo(DeviceQueue &queue, Cancel cancel) const;

private:
  struct Command {
    bool isLaunch;
    LaunchCommand launch; // its lists point into `buffers` and `symbols`
    std::vector<void *> buffers;
    std::vector<int64_t> symbols;
    void *target;
    const void *source;
    uint64_t bytes;
  };
  std::vector<Command> commands;
};

} // namespace knapper
