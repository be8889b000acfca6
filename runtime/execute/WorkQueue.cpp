#include "runtime/execute/WorkQueue.h"

namespace knapper {

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_one();
  thread.join();
}

void WorkQueue::submit(std::function<void()> task) {
  {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
  }
  changed.notify_one();
}

void WorkQueue::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return closing || !tasks.empty(); });
    if (tasks.empty())
      return;
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr; // what it holds goes before the next wait
    lock.lock();
  }
}

} // namespace knapper
