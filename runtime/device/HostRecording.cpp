#include "runtime/device/HostRecording.h"

namespace knapper {

void HostRecording::add(const LaunchCommand &command) {
  // The lists keep their addresses when a Command moves: vectors move, not
  // copy.
  Command c{true,
            command,
            {command.buffers, command.buffers + command.numBuffers},
            {command.symbols, command.symbols + command.numSymbols},
            nullptr,
            nullptr,
            0};
  c.launch.buffers = c.buffers.data();
  c.launch.symbols = c.symbols.data();
  commands.push_back(std::move(c));
}

void HostRecording::add(void *target, const void *source, uint64_t bytes) {
  commands.push_back({false, {}, {}, {}, target, source, bytes});
}

Status HostRecording::playTo(DeviceQueue &queue, Cancel cancel) const {
  for (const Command &c : commands) {
    if (cancel.isWished())
      return cancelledRun();
    Status s = c.isLaunch ? queue.launch(c.launch)
                          : queue.copy(c.target, c.source, c.bytes);
    if (!s)
      return s;
  }
  return success();
}

} // namespace knapper
