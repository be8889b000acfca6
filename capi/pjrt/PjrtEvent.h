//===- PjrtEvent.h - When something is done -------------------------------===//
//
// Runs and copies have ended when their function returns, so most events are
// ready: one shared object, which nobody frees. An event of its own is one that
// a client made, or one that a buffer completes when it lets go of host memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace knapper::pjrt {

/// What events and those who complete them share. Thread-safe.
class Completion {
public:
  using Callback = void (*)(PjrtError *, void *);

  /// Once; later calls do nothing. Calls what waits.
  void complete(Code code = Code{}, std::string message = "");
  bool isReady() const;
  void wait() const;
  /// Null where all went well; of a ready one.
  PjrtError *error() const;
  /// Calls at once where it is ready.
  void onReady(Callback callback, void *user);

private:
  mutable std::mutex mutex;
  mutable std::condition_variable condition;
  bool ready = false;
  Code code{};
  std::string message;
  std::vector<std::pair<Callback, void *>> waiting;
};

struct PluginEvent {
  std::shared_ptr<Completion> completion; ///< null: ready from the beginning
};

PluginEvent *readyEvent();
PluginEvent *makeEvent(std::shared_ptr<Completion> completion);

void setEventFunctions(PjrtApi &api);

} // namespace knapper::pjrt
