#include "capi/pjrt/RunQueue.h"

#include <csignal>
#include <pthread.h>

namespace knapper::pjrt {

RunQueue::~RunQueue() {
  {
    std::lock_guard lock(mutex);
    ends = true;
  }
  added.notify_one();
  if (thread.joinable())
    thread.join();
}

void RunQueue::add(std::function<void()> run) {
  std::unique_lock lock(mutex);
  taken.wait(lock, [&] { return waiting.size() < most; });
  waiting.push_back(std::move(run));
  ++open;
  if (!thread.joinable()) {
    // Signals are the caller's threads' to handle.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread = std::thread([this] { work(); });
    } catch (...) {
      waiting.pop_back();
      --open;
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), "knapper-runs");
  }
  added.notify_one();
}

void RunQueue::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    added.wait(lock, [&] { return ends || !waiting.empty(); });
    if (waiting.empty())
      return;
    std::function<void()> run = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    taken.notify_one();
    run();
    run = nullptr; // what it holds is let go before the next one waits
    --open;
    lock.lock();
  }
}

} // namespace knapper::pjrt
