//===- PjrtEvent.h - When something is done -------------------------------===//
//
// What has ended when its function returns has the ready event: one shared
// object, which nobody frees. Others are of runs that go on, of what waits for
// them, of host memory that a buffer lets go of, and those that a client made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace knapper::pjrt {

/// What events and those who complete them share. Thread-safe.
class Completion {
public:
  /// Takes the error, null where all went well.
  using Callback = std::function<void(PjrtError *)>;

  /// Once; later calls do nothing. Calls what waits.
  void complete(Code code = Code{}, std::string message = "");
  bool isReady() const { return ready.load(std::memory_order_acquire); }
  void wait() const;
  /// Null where all went well; of a ready one.
  PjrtError *error() const;
  /// Calls at once where it is ready, else on the thread that completes it.
  void onReady(Callback callback);

private:
  mutable std::mutex mutex;
  mutable std::condition_variable condition;
  std::atomic<bool> ready = false;
  Code code{};
  std::string message;
  std::vector<Callback> waiting;
};

struct PluginEvent {
  std::shared_ptr<Completion> completion; ///< null: ready from the beginning
};

PluginEvent *readyEvent();
/// The ready event of none.
PluginEvent *makeEvent(std::shared_ptr<Completion> completion);
void destroyEvent(PluginEvent *event);

void setEventFunctions(PjrtApi &api);

} // namespace knapper::pjrt
