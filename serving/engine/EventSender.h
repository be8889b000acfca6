// Sends the events of a step while the next one runs.
#pragma once

#include "serving/engine/Engine.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace knapper::serving {

/// Calls sinks in the order of the events, never two at once: on a thread of
/// its own, or on the caller's where there are few events. One thread calls.
class EventSender {
public:
  struct Item {
    std::shared_ptr<const EventSink> sink;
    Event event;
  };

  /// `most`: events in one call of `send`.
  explicit EventSender(size_t most);
  /// Sends what it has.
  ~EventSender();

  /// Waits until the items of the last call are sent, then takes these. `items`
  /// is empty afterwards, with memory for `most`. Allocates nothing.
  void send(std::vector<Item> &items);
  /// Returns when all is sent.
  void finish();

private:
  void work();

  std::mutex mutex; ///< guards what follows
  std::condition_variable given, sent;
  std::vector<Item> items; ///< the thread's while `sending`
  bool sending = false, ending = false;
  std::thread thread; ///< the last: it uses the others
};

} // namespace knapper::serving
