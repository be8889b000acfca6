// Mutexes that a child of fork finds free, and what is done once.
#pragma once

#include <mutex>
#include <pthread.h>

namespace knapper {

template <typename Owner> struct ForkMutex {
  std::mutex mutex;
  ForkMutex() {
    pthread_atfork([] { only.mutex.lock(); }, [] { only.mutex.unlock(); },
                   [] { only.mutex.unlock(); });
  }
  /// Made when the library is loaded: a static of a function has a guard that
  /// a child may find held.
  static ForkMutex only;
};
template <typename Owner> inline ForkMutex<Owner> ForkMutex<Owner>::only;

/// The process's mutex for what `Owner` guards. A child has only the thread
/// that forked: a mutex that another held would stay held there, and what it
/// guards half changed. So a fork waits until it has this one, and both
/// processes go on with it free. Hold it for milliseconds at most, and call
/// nothing of the user's: the thread that forks may hold what that waits for
/// (Python's lock).
template <typename Owner> std::mutex &forkMutex() {
  return ForkMutex<Owner>::only.mutex;
}

/// std::call_once for `Owner`, but for children: one that is made while
/// another thread is in `work` would wait for that thread for ever. What holds
/// for what is done under `forkMutex` holds for `work`; if it throws, the next
/// call does it.
template <typename Owner, typename Work> void forkOnce(Work work) {
  static bool done = false;
  std::lock_guard lock(forkMutex<Owner>());
  if (done)
    return;
  work();
  done = true;
}

} // namespace knapper
