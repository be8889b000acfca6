#include "serving/engine/EventSender.h"

#include <pthread.h>

namespace knapper::serving {

EventSender::EventSender(size_t most) {
  items.reserve(most);
  thread = std::thread([this] { work(); });
}

EventSender::~EventSender() {
  {
    std::lock_guard lock(mutex);
    ending = true;
    given.notify_all();
  }
  thread.join();
}

static void sendAll(std::vector<EventSender::Item> &items) {
  for (EventSender::Item &item : items)
    (*item.sink)(std::move(item.event));
  items.clear();
}

void EventSender::send(std::vector<Item> &next) {
  if (next.empty())
    return;
  constexpr size_t few = 2; // to wake a thread takes longer
  std::unique_lock lock(mutex);
  if (next.size() <= few && !sending) {
    lock.unlock();
    sendAll(next);
    return;
  }
  sent.wait(lock, [&] { return !sending; });
  items.swap(next);
  sending = true;
  given.notify_all();
}

void EventSender::finish() {
  std::unique_lock lock(mutex);
  sent.wait(lock, [&] { return !sending; });
}

void EventSender::work() {
  pthread_setname_np(pthread_self(), "knapper-events");
  std::unique_lock lock(mutex);
  while (true) {
    given.wait(lock, [&] { return ending || sending; });
    if (!sending)
      return;
    lock.unlock();
    sendAll(items);
    lock.lock();
    sending = false;
    sent.notify_all();
  }
}

} // namespace knapper::serving
