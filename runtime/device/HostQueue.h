// A queue whose commands have run when the call that issued them returns.
#pragma once

#include "runtime/device/HostRecording.h"

namespace knapper {

/// A driver adds what it does about launches and copies; while `recording` is
/// open these are added to it instead.
class HostQueue : public DeviceQueue {
public:
  Status upload(void *target, const void *source, uint64_t bytes) override {
    return copy(target, source, bytes);
  }
  Status download(void *target, const void *source, uint64_t bytes) override {
    return copy(target, source, bytes);
  }
  Expected<std::unique_ptr<DeviceEvent>> record() override {
    return std::unique_ptr<DeviceEvent>(new DoneEvent);
  }
  Status waitFor(const DeviceEvent &event) override { return event.wait(); }

  Status beginRecording() override {
    if (recording)
      return userError("a recording is open already", "queue");
    recording = std::make_unique<HostRecording>();
    return success();
  }
  Expected<std::unique_ptr<Recording>> endRecording() override {
    if (!recording)
      return userError("no recording is open", "queue");
    return std::unique_ptr<Recording>(std::move(recording));
  }
  Status replay(const Recording &commands, Cancel cancel) override {
    return static_cast<const HostRecording &>(commands).playTo(*this, cancel);
  }

protected:
  std::unique_ptr<HostRecording> recording;

private:
  class DoneEvent : public DeviceEvent {
  public:
    bool done() const override { return true; }
    Status wait() const override { return success(); }
  };
};

} // namespace knapper
